/**
 * An exec in words for the person who approves it: all that it would do, with nothing hidden.
 *
 * Of a file that is there already the change is shown, not the whole. What was fetched for it comes in as `Sight`.
 */
import type { ExecServerMessage } from "../protocol/messages.ts";
import type { Sight } from "./approval-sight.ts";
import { type DiffLine, diffLines } from "./line-diff.ts";
import { foldedText, visibleLine } from "./visible-text.ts";

export interface ApprovalLine {
  readonly kind: "plain" | DiffLine["kind"];
  readonly text: string;
}

interface ApprovalText {
  /** One line. */
  readonly title: string;
  /** All arguments; line breaks of a command or a content stand as they are. */
  readonly lines: readonly ApprovalLine[];
}

type Field = readonly [name: string, value: string | readonly DiffLine[]];

export function approvalText({ message }: ExecServerMessage, tool: string, sight: Sight): ApprovalText {
  const { subject, fields } = describe(message, sight);
  const title = visibleLine(subject === "" ? tool : `${tool}: ${subject}`);
  const lines = fields
    .filter(([, value]) => value.length > 0)
    .flatMap(([name, value]) =>
      typeof value === "string"
        ? fieldLines(name, value)
        : [plain(`${name}:`)].concat(value.map(shownChange)),
    );
  return { title, lines };
}

function plain(text: string): ApprovalLine {
  return { kind: "plain", text };
}

/** Further lines are set in, so that none of them looks like a field of its own. */
function fieldLines(name: string, value: string): readonly ApprovalLine[] {
  const [first = "", ...rest] = foldedText(value).split("\n");
  if (rest.length === 0) return [plain(`${name}: ${first}`)];
  return [plain(`${name}:`), ...[first, ...rest].map((line) => plain(`  ${line}`))];
}

const SIGNS = { context: " ", added: "+", removed: "-", hunk: "" } as const;

/** A change of white space alone must be seen too. */
function shownChange({ kind, text }: DiffLine): ApprovalLine {
  const isChange = kind === "added" || kind === "removed";
  const marked = isChange ? text.replace(/ +$/u, (spaces) => "·".repeat(spaces.length)) : text;
  const shown = foldedText(marked);
  return { kind, text: `  ${SIGNS[kind]}${isChange ? shown.replaceAll("\t", "⇥   ") : shown}` };
}

function describe(
  message: ExecServerMessage["message"],
  sight: Sight,
): { subject: string; fields: readonly Field[] } {
  switch (message.case) {
    case "shellArgs":
    case "shellStreamArgs": {
      const { command, workingDirectory, timeoutMs, description } = message.value;
      const fields: Field[] = [
        ["command", command],
        ["working directory", workingDirectory],
        ["timeout", timeoutMs === undefined ? "" : `${timeoutMs} ms`],
        ["why, as the model says", description],
      ];
      return { subject: command, fields };
    }
    case "writeArgs":
      return { subject: message.value.path, fields: [["path", message.value.path], ...writeFields(sight)] };
    case "mcpArgs": {
      const text = plainJson(sight.content.text);
      return {
        subject: text,
        fields: [
          ["MCP server", message.value.server],
          ["arguments", text],
        ],
      };
    }
    case "subagentArgs": {
      const { description, model, readOnly } = message.value;
      const fields: Field[] = [
        ["task", sight.content.text],
        ["model", model],
        ["tools", readOnly ? "only those without effects" : ""],
      ];
      return { subject: description, fields };
    }
    case "grepArgs":
    case "globArgs":
      return {
        subject: message.value.pattern,
        fields: [
          ["pattern", message.value.pattern],
          ["path", message.value.path],
        ],
      };
    case "deleteArgs":
    case "readArgs":
    case "lsArgs":
      return { subject: message.value.path, fields: [["path", message.value.path]] };
    case undefined:
      return { subject: "", fields: [] };
  }
}

const STALE = "the file is not the one that was read: unless it is again, nothing will be written";

function writeFields({ content, present }: Sight): readonly Field[] {
  switch (present.kind) {
    case "none":
      return [["content", content.text]];
    case "unseen":
      return [
        ["there now", present.why],
        ["content", content.text],
      ];
    case "text": {
      const stale: Field = ["note", present.isExpected ? "" : STALE];
      // Bytes that are no text have no lines to compare.
      if (!content.isText)
        return [["there now", "a text, which this would replace"], stale, ["content", content.text]];
      const change = diffLines(present.text, content.text);
      return change.length === 0
        ? [["content", "the same as the file has now"], stale]
        : [["change", change], stale];
    }
  }
}

/** As it will be read: an escape can hide a letter, and of two fields of one name the last one counts. */
function plainJson(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text));
  } catch {
    return text;
  }
}
