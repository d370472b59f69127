/**
 * Markdown on the screen: one element for each kind of the tree, and never a string as markup.
 */
import { createElement, memo, type ReactNode, useMemo, useRef, useState } from "react";
import { type Languages, piecesOf } from "./highlight.ts";
import {
  type Block,
  blocksOf,
  type Inline,
  inlineOf,
  type Passage,
  passagesOf,
  plainText,
  proseText,
  sectionsOf,
} from "./markdown.ts";
import { useLanguages } from "./use-languages.ts";

/** A text that may still grow. */
export function Markdown({ text }: { readonly text: string }) {
  return (
    <div className="markdown">
      {sectionsOf(text).map((section, at) => (
        // A section stays in its place while those behind it come.
        <Section key={at} text={section} />
      ))}
    </div>
  );
}

const Section = memo(function Section({ text }: { readonly text: string }) {
  return blocksOf(text).map((block, at) => <BlockView key={at} block={block} />);
});

function BlockView({ block }: { readonly block: Block }): ReactNode {
  switch (block.kind) {
    case "heading":
      // The page itself has the first two levels.
      return createElement(`h${Math.min(6, block.level + 2)}`, { dir: "auto" }, words(block.text));
    case "paragraph":
      return (
        <p dir="auto">
          <Words text={block.text} />
        </p>
      );
    case "code":
      return <Code language={block.language} text={block.text} />;
    case "quote":
      return (
        <blockquote>
          {block.inner.map((inner, at) => (
            <BlockView key={at} block={inner} />
          ))}
        </blockquote>
      );
    case "list":
      return createElement(
        block.isOrdered ? "ol" : "ul",
        block.isOrdered ? { start: block.start } : {},
        block.items.map((item, at) => (
          <li key={at} dir="auto">
            {item.map((inner, place) =>
              inner.kind === "paragraph" ? (
                <span key={place}>
                  <Words text={inner.text} />
                </span>
              ) : (
                <BlockView key={place} block={inner} />
              ),
            )}
          </li>
        )),
      );
    case "table":
      return <Table head={block.head} rows={block.rows} />;
    case "rule":
      return <hr />;
  }
}

function Table({ head, rows }: Pick<Extract<Block, { kind: "table" }>, "head" | "rows">) {
  return (
    <div className="table" tabIndex={0} role="group" aria-label="Table">
      <table>
        <thead>
          <tr>
            {head.map((cell, at) => (
              <th key={at} dir="auto">
                {words(cell)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, at) => (
            <tr key={at}>
              {row.map((cell, place) => (
                <td key={place} dir="auto">
                  {words(cell)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A text that may be long and still grow: its passages are read and drawn once, but for the last. */
function Words({ text }: { readonly text: string }) {
  const last = useRef<{ readonly text: string; readonly passages: readonly Passage[] }>({
    text: "",
    passages: [],
  });
  const { text: before, passages } = last.current;
  if (text !== before) {
    last.current = { text, passages: passagesOf(text, text.startsWith(before) ? passages : []) };
  }
  return last.current.passages.map((passage, at) => <PassageView key={at} {...passage} />);
}

const PassageView = memo(function PassageView({ text, isPlain }: Passage) {
  return isPlain ? proseText(text) : words(text);
});

function words(text: string): ReactNode {
  return inlineOf(text).map((inline, at) => <InlineView key={at} inline={inline} />);
}

function InlineView({ inline }: { readonly inline: Inline }): ReactNode {
  switch (inline.kind) {
    case "text":
      return proseText(inline.text);
    case "code":
      return <code>{plainText(inline.text)}</code>;
    case "link":
      return (
        <a href={inline.href} title={inline.href} target="_blank" rel="noopener noreferrer">
          {inline.inner.map((inner, at) => (
            <InlineView key={at} inline={inner} />
          ))}
        </a>
      );
    case "strong":
    case "em":
    case "del":
      return createElement(
        inline.kind,
        null,
        inline.inner.map((inner, at) => <InlineView key={at} inline={inner} />),
      );
  }
}

/** How long a copy is confirmed. */
const COPIED_MS = 1_500;
const NO_LANGUAGES: Languages = new Map();

function Code({ language, text }: { readonly language: string; readonly text: string }) {
  const [word, setWord] = useState("Copy");
  const languages = useLanguages() ?? NO_LANGUAGES;
  const pieces = useMemo(() => piecesOf(text, language, languages), [text, language, languages]);
  const copy = async (): Promise<void> => {
    const isDone = await navigator.clipboard.writeText(text).then(
      () => true,
      () => false,
    );
    setWord(isDone ? "Copied" : "Not allowed");
    setTimeout(() => setWord("Copy"), COPIED_MS);
  };
  return (
    <figure className="code">
      <figcaption>
        <span>{language}</span>
        <button type="button" className="quiet" onClick={() => void copy()}>
          {word}
        </button>
      </figcaption>
      <pre tabIndex={0}>
        <code>
          {pieces.map(({ kind, text: piece }, at) =>
            kind === undefined ? (
              plainText(piece)
            ) : (
              <span key={at} className={kind}>
                {plainText(piece)}
              </span>
            ),
          )}
        </code>
      </pre>
    </figure>
  );
}
