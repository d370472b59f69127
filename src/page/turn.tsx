/**
 * One turn: what the person said, what the answer says, what it did, and how it ended.
 */
import { memo, useLayoutEffect, useRef, useState } from "react";
import type { PendingApproval, ShownTurn } from "../react/index.ts";
import type { ThinkingView, ViewPart } from "../turn/view.ts";
import { Markdown } from "./markdown-view.tsx";
import { proseText } from "./markdown.ts";
import { useRetracted } from "./use-retracted.ts";
import { type Decide, ToolCard } from "./tool-card.tsx";

interface TurnProps {
  readonly turn: ShownTurn;
  /** From 1; the conversation has so many. Those between may not be drawn. */
  readonly place: number;
  readonly of: number;
  /** Of this turn. */
  readonly approvals: readonly PendingApproval[];
  /** Nothing runs: what was said may be changed. */
  readonly mayEdit: boolean;
  readonly decide: Decide;
  /** Takes the conversation back to before this turn, and says this instead. */
  readonly resend: (turnId: string, text: string) => void;
}

export const Turn = memo(function Turn({ turn, place, of, approvals, mayEdit, decide, resend }: TurnProps) {
  const [isEditing, setEditing] = useState(false);
  const edit = useRef<HTMLButtonElement>(null);
  const isCancelled = useRef(false);
  useLayoutEffect(() => {
    // Back to where the person came from.
    if (isCancelled.current) edit.current?.focus();
    isCancelled.current = false;
  }, [isEditing]);
  const { user, parts, end } = turn;
  return (
    <article
      className="turn"
      data-turn={turn.id}
      aria-posinset={place}
      aria-setsize={of}
      aria-busy={end === undefined}
    >
      {user !== undefined &&
        (isEditing ? (
          <Edit
            text={user.text}
            cancel={() => {
              isCancelled.current = true;
              setEditing(false);
            }}
            send={(text) => {
              setEditing(false);
              resend(turn.id, text);
            }}
          />
        ) : (
          <div className="said">
            <h2>You</h2>
            <p dir="auto">{proseText(user.text)}</p>
            {mayEdit && (
              <button type="button" className="quiet edit" ref={edit} onClick={() => setEditing(true)}>
                Edit
              </button>
            )}
          </div>
        ))}
      <Answer parts={parts} isOver={end !== undefined} approvals={approvals} decide={decide} />
      {end !== undefined && end.reason !== "completed" && (
        <div className={end.reason === "aborted" ? "end" : "end warns"}>
          <p>{endWords(end.reason, end.message)}</p>
          {end.reason === "left" && (
            <button type="button" onClick={() => location.reload()}>
              Reload the page
            </button>
          )}
          {end.reason !== "left" && mayEdit && user !== undefined && (
            <button type="button" onClick={() => resend(turn.id, user.text)}>
              {end.reason === "aborted" ? "Ask again" : "Try again"}
            </button>
          )}
        </div>
      )}
    </article>
  );
});

/** What happened, and what was kept. */
function endWords(reason: NonNullable<ShownTurn["end"]>["reason"], message: string): string {
  if (reason === "aborted") return "You stopped it here.";
  return reason === "failed" ? `${message} What it said so far is kept.` : message;
}

interface AnswerProps extends Pick<TurnProps, "approvals" | "decide"> {
  readonly parts: readonly ViewPart[];
  readonly isOver: boolean;
}

function Answer({ parts, isOver, approvals, decide }: AnswerProps) {
  const gone = useRetracted(parts);
  const box = useRef<HTMLDivElement>(null);
  const ghost = useRef<HTMLDivElement>(null);
  /** What was taken back leaves its room to what comes: nothing that a person reads moves. */
  const height = useRef(0);
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null || isOver) return undefined;
    // The observer reports the height after the browser's layout. Asking for it at each word would cost another layout.
    const watcher = new ResizeObserver(() => {
      height.current = element.offsetHeight;
    });
    watcher.observe(element);
    return () => watcher.disconnect();
  }, [isOver]);
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    if (isOver) element.style.minHeight = "";
    else if (gone !== undefined) element.style.minHeight = `${height.current}px`;
  }, [isOver, gone]);
  useLayoutEffect(() => {
    // It stays where it stood while the new text grows.
    if (ghost.current !== null) ghost.current.style.top = `${ghost.current.offsetTop}px`;
  }, [gone]);
  const isSilent = parts.length === 0 && !isOver && gone === undefined;
  return (
    <div className="answer" ref={box}>
      <h2 className="aside">Answer</h2>
      {parts.map((part, at) => (
        <Part
          key={part.type === "tool" ? `${part.step} ${part.toolCallId}` : at}
          part={part}
          isLast={!isOver && at === parts.length - 1}
          approval={approvalOf(part, approvals)}
          decide={decide}
        />
      ))}
      {isSilent && <span className="caret" aria-hidden="true" />}
      {gone !== undefined && (
        <div className="gone" aria-hidden="true" ref={ghost}>
          {proseText(gone)}
        </div>
      )}
    </div>
  );
}

function approvalOf(part: ViewPart, approvals: readonly PendingApproval[]): PendingApproval | undefined {
  if (part.type !== "tool") return undefined;
  return approvals.find(({ execId }) => part.execIds.includes(execId));
}

interface PartProps extends Pick<TurnProps, "decide"> {
  readonly part: ViewPart;
  /** Of an answer that is under way: more may come at its end. */
  readonly isLast: boolean;
  readonly approval: PendingApproval | undefined;
}

const Part = memo(function Part({ part, isLast, approval, decide }: PartProps) {
  switch (part.type) {
    case "text":
      return (
        <div className={isLast ? "text growing" : "text"}>
          <Markdown text={part.text} />
        </div>
      );
    case "thinking":
      return <Thinking part={part} />;
    case "tool":
      return <ToolCard part={part} approval={approval} decide={decide} />;
    case "user":
      return (
        <div className="said">
          <h2>You</h2>
          <p dir="auto">{proseText(part.text)}</p>
        </div>
      );
  }
});

function Thinking({ part }: { readonly part: ThinkingView }) {
  const { durationMs } = part;
  const words = durationMs === undefined ? "thinking" : `thought for ${shownSeconds(durationMs)}`;
  return (
    <details className="thinking">
      <summary>{words}</summary>
      <p dir="auto">{proseText(part.text)}</p>
    </details>
  );
}

function shownSeconds(ms: number): string {
  return ms < 1_000 ? "a moment" : `${Math.round(ms / 1_000)} s`;
}

interface EditProps {
  readonly text: string;
  readonly cancel: () => void;
  readonly send: (text: string) => void;
}

function Edit({ text: before, cancel, send }: EditProps) {
  const [text, setText] = useState(before);
  const field = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => {
    field.current?.focus();
    field.current?.setSelectionRange(before.length, before.length);
  }, [before]);
  const submit = (): void => {
    if (text.trim() !== "") send(text);
  };
  return (
    <form
      className="said"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        event.preventDefault();
        cancel();
      }}
    >
      <h2>You</h2>
      <textarea
        ref={field}
        aria-label="Your message, changed"
        rows={Math.min(12, text.split("\n").length + 1)}
        value={text}
        onChange={({ target }) => setText(target.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
          event.preventDefault();
          submit();
        }}
      />
      <div className="answers">
        <button className="main">Send instead</button>
        <button type="button" onClick={cancel}>
          Cancel
        </button>
        <span className="hint">What followed it is forgotten.</span>
      </div>
    </form>
  );
}
