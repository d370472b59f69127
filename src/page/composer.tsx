/**
 * Where a person writes. Enter sends, Shift and Enter begins a line; what is typed while an answer runs stays there.
 */
import { type RefObject, useEffect, useLayoutEffect, useState } from "react";

interface ComposerProps {
  readonly isBusy: boolean;
  readonly field: RefObject<HTMLTextAreaElement | null>;
  /** Another conversation has a draft of its own. */
  readonly conversation: string;
  /** What could not be sent; empty when everything was. It stands here again, unless something else does by then. */
  readonly unsent: string;
  readonly send: (text: string) => void;
  readonly stop: () => void;
}

const placeOf = (conversation: string): string => `holdfast draft ${conversation}`;

export function Composer({ isBusy, field, conversation, unsent, send, stop }: ComposerProps) {
  const [text, setText] = useState(() => sessionStorage.getItem(placeOf(conversation)) ?? "");
  useEffect(() => {
    // A reload keeps it.
    if (text === "") sessionStorage.removeItem(placeOf(conversation));
    else sessionStorage.setItem(placeOf(conversation), text);
  }, [conversation, text]);
  useEffect(() => {
    if (unsent !== "") setText((before) => (before === "" ? unsent : before));
  }, [unsent]);
  useLayoutEffect(() => {
    // A question that waits for a key has the focus already. (`autoFocus` is a browser's, and counts once for a page.)
    if (document.activeElement?.closest(".approval") === null) field.current?.focus();
  }, [field]);
  useLayoutEffect(() => {
    const element = field.current;
    if (element === null) return;
    element.style.height = "auto";
    element.style.height = `${element.scrollHeight}px`;
  }, [field, text]);

  const submit = (): void => {
    if (isBusy || text.trim() === "") return;
    setText("");
    send(text);
  };

  return (
    <form
      className="composer"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <textarea
        ref={field}
        aria-label="Message"
        placeholder="Message"
        rows={1}
        value={text}
        onChange={({ target }) => setText(target.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
          event.preventDefault();
          submit();
        }}
      />
      {isBusy ? (
        <button type="button" onClick={stop}>
          Stop
        </button>
      ) : (
        <button className="main" disabled={text.trim() === ""}>
          Send
        </button>
      )}
    </form>
  );
}
