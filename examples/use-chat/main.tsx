/**
 * The AI SDK's `useChat` over Holdfast: reload it, close it, open it twice, kill its server.
 */
import { useChat } from "@ai-sdk/react";
import { lastAssistantMessageIsCompleteWithApprovalResponses as isDecided, type UIMessage } from "ai";
import { HoldfastChatTransport, tool } from "holdfast/ai-sdk";
import { StrictMode, useEffect, useState } from "react";
import { createRoot } from "react-dom/client";
import { z } from "zod";
import { MessageForm } from "../pages/message-form.tsx";

const apiKey = await (await fetch("/session")).text();

const transport = new HoldfastChatTransport({
  url: `${location.origin}/ai/`,
  apiKey,
  tools: {
    pay: tool("Pays for something", { euros: z.number() }, ({ euros }) => `paid ${euros} euros`, {
      needsApproval: true,
    }),
  },
});
const messages = await transport.messages("trip");

function Chat() {
  const [connection, setConnection] = useState("");
  const chat = useChat({
    id: "trip",
    messages,
    transport,
    resume: true,
    sendAutomaticallyWhen: isDecided,
    onData: ({ data }) => setConnection(JSON.stringify(data)),
  });
  useEffect(() => transport.follow(chat), [chat.id]);
  return (
    <>
      {chat.messages.map((message) => (
        <Message key={message.id} message={message} decide={chat.addToolApprovalResponse} />
      ))}
      <MessageForm send={(text) => void chat.sendMessage({ text })} stop={() => void chat.stop()}>
        <button type="button" onClick={() => void chat.regenerate()}>
          Again
        </button>
      </MessageForm>
      <p>
        <output>{chat.status}</output> <small>{connection}</small>{" "}
        <span role="alert">{chat.error?.message}</span>
      </p>
    </>
  );
}

interface MessageProps {
  readonly message: UIMessage;
  readonly decide: ReturnType<typeof useChat>["addToolApprovalResponse"];
}

function Message({ message, decide }: MessageProps) {
  return (
    <article data-role={message.role}>
      {message.parts.map((part, at) => {
        if (part.type === "text") return <p key={at}>{part.text}</p>;
        if (part.type !== "dynamic-tool") return null;
        return (
          <section key={at} data-tool={part.toolName} data-state={part.state}>
            {part.toolName} {JSON.stringify(part.input)}{" "}
            {part.state === "output-available" && String(part.output)}
            {part.state === "approval-requested" && (
              <>
                <button onClick={() => void decide({ id: part.approval.id, approved: true })}>Allow</button>
                <button onClick={() => void decide({ id: part.approval.id, approved: false })}>Deny</button>
              </>
            )}
          </section>
        );
      })}
    </article>
  );
}

createRoot(document.getElementById("root") ?? document.body).render(
  <StrictMode>
    <Chat />
  </StrictMode>,
);
