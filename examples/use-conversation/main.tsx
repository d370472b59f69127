/**
 * A conversation in React without any other library: `useConversation`. Its server is that of `use-chat`.
 */
import { LiveConversations, tool, useConversation, useStream } from "holdfast/react";
import { StrictMode, useState } from "react";
import { createRoot } from "react-dom/client";
import { z } from "zod";
import { MessageForm } from "../pages/message-form.tsx";

const apiKey = await (await fetch("/session")).text();

const conversations = new LiveConversations({
  url: `${location.origin}/ai/`,
  apiKey,
  tools: {
    pay: tool("Pays for something", { euros: z.number() }, ({ euros }) => `paid ${euros} euros`, {
      needsApproval: true,
    }),
  },
});

function Chat() {
  const { turns, isBusy, role, connection, approvals, error, send, stop, decide } = useConversation(
    conversations,
    "trip",
  );
  const [watched, setWatched] = useState("");
  const last = turns.at(-1)?.id ?? "";
  if (isBusy && watched !== last) setWatched(last);
  return (
    <>
      {turns.map(({ id, user, parts, end }) => (
        <article key={id}>
          <h2>{user?.text}</h2>
          {parts.map((part, at) => {
            if (part.type === "text") return <p key={at}>{part.text}</p>;
            if (part.type !== "tool") return null;
            return (
              <section key={at} data-tool={part.tool}>
                {part.tool} {part.args} {part.outcome} {part.result}
              </section>
            );
          })}
          <small>{end?.reason}</small>
        </article>
      ))}
      {approvals.map(({ id, tool: name, args }) => (
        <p key={id}>
          {name} {JSON.stringify(args)}
          <button onClick={() => decide(id, true)}>Allow</button>
          <button onClick={() => decide(id, false)}>Deny</button>
        </p>
      ))}
      <MessageForm send={(text) => void send(text)} stop={() => void stop()} />
      <dl>
        <dt>events of the last turn</dt>
        {watched !== "" && <Events idempotencyKey={watched} />}
      </dl>
      <p>
        <output>{isBusy ? "streaming" : "ready"}</output>{" "}
        <small>
          {role} {connection?.state}
        </small>{" "}
        {error?.message}
      </p>
    </>
  );
}

/** The events of one turn's log, counted. */
function Events({ idempotencyKey }: { readonly idempotencyKey: string }) {
  const { state } = useStream(
    conversations,
    idempotencyKey,
    (_, { eventId, end = "" }) => `${eventId} ${end}`.trim(),
    "0",
  );
  return <dd>{state}</dd>;
}

createRoot(document.getElementById("root") ?? document.body).render(
  <StrictMode>
    <Chat />
  </StrictMode>,
);
