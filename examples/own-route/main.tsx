/**
 * `useChat` over an `/api/chat` route of the application's own, whose answers last.
 */
import { useChat } from "@ai-sdk/react";
import { HoldfastRouteTransport } from "holdfast/ai-sdk";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { MessageForm } from "../pages/message-form.tsx";

const transport = new HoldfastRouteTransport();

function Chat() {
  const chat = useChat({ id: "trip", transport, resume: true });
  return (
    <>
      {chat.messages.map((message) => (
        <article key={message.id} data-role={message.role}>
          {message.parts.map((part, at) => part.type === "text" && <p key={at}>{part.text}</p>)}
        </article>
      ))}
      <MessageForm send={(text) => void chat.sendMessage({ text })} stop={() => void chat.stop()} />
      <p>
        <output>{chat.status}</output> <span role="alert">{chat.error?.message}</span>
      </p>
    </>
  );
}

createRoot(document.getElementById("root") ?? document.body).render(
  <StrictMode>
    <Chat />
  </StrictMode>,
);
