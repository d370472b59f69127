/**
 * Where a person writes, in every example.
 */
import { type ReactNode, useState } from "react";

interface MessageFormProps {
  readonly send: (text: string) => void;
  readonly stop: () => void;
  readonly children?: ReactNode;
}

export function MessageForm({ send, stop, children }: MessageFormProps) {
  const [text, setText] = useState("");
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        setText("");
        send(text);
      }}
    >
      <input
        aria-label="Message"
        autoComplete="off"
        value={text}
        onChange={({ target }) => setText(target.value)}
      />
      <button>Send</button>
      <button type="button" onClick={stop}>
        Stop
      </button>
      {children}
    </form>
  );
}
