/**
 * What a browser without a sign-in sees: it asks for the link that the server prints, or for an API key.
 */
import { useState } from "react";
import { judgeKey, keepKey } from "./session.ts";

interface SignInProps {
  readonly reason: string;
  readonly entered: (apiKey: string) => void;
}

export function SignIn({ reason, entered }: SignInProps) {
  const [apiKey, setApiKey] = useState("");
  const [trouble, setTrouble] = useState(reason);
  const submit = async (): Promise<void> => {
    const key = apiKey.trim();
    const verdict = await judgeKey(key);
    if (verdict === "refused") setTrouble("The server does not know this API key.");
    else if (verdict === "away") setTrouble("The server does not answer. Is it running?");
    else {
      keepKey(key);
      entered(key);
    }
  };
  return (
    <main className="sign-in">
      <h1>Holdfast</h1>
      {trouble !== "" && (
        <p className="warns" role="alert">
          {trouble}
        </p>
      )}
      <p>
        Open the link that <code>holdfast serve</code> prints as <b>page</b>: it signs this browser in, once.
        Or paste an API key.
      </p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <input
          type="password"
          aria-label="API key"
          placeholder="API key"
          autoComplete="off"
          autoFocus
          value={apiKey}
          onChange={({ target }) => setApiKey(target.value)}
        />
        <button className="main" disabled={apiKey.trim() === ""}>
          Sign in
        </button>
      </form>
      <p className="hint">
        The API key of this machine is in the file <code>api-key</code> of the data directory;{" "}
        <code>holdfast keys create</code> makes another.
      </p>
    </main>
  );
}
