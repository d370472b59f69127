/**
 * A Hono server with an `/api/chat` route of its own, whose answers last:
 *
 *     npx vite build examples/own-route --config examples/pages/vite.config.ts
 *     npx node examples/own-route/server.ts examples/own-route/dist
 */
import { resolve } from "node:path";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { serve as listen } from "@hono/node-server";
import { serveStatic } from "@hono/node-server/serve-static";
import { convertToModelMessages, streamText, type UIMessage } from "ai";
import { Hono } from "hono";
// In a project of yours: from "holdfast/fetch", "holdfast/ai-sdk" and "holdfast".
import { holdfast } from "../../src/fetch/index.ts";
import { openChats } from "../../src/node/ai-sdk.ts";
import { serve } from "../../src/node/index.ts";

const data = process.env["DATA"] ?? "./data";
// Any model of the AI SDK does. This one is Holdfast's rehearsal model, which needs no provider, or one of its others.
const gateway = await serve({ port: 0, data: `${data}/gateway` });
const { baseUrl: baseURL, apiKey = "" } = gateway;
// With this fetch a stop of the route stops the gateway's answer too, and is not taken for a lost connection.
const provider = createOpenAICompatible({ name: "holdfast", baseURL, apiKey, fetch: holdfast({ baseURL }) });
const model = provider(process.env["MODEL"] ?? "rehearsal");
const chats = await openChats({ data: `${data}/chats` });

const app = new Hono();
app.post("/api/chat", async (context) => {
  const { id: chatId, messages } = await context.req.json<{ id: string; messages: UIMessage[] }>();
  return chats.toHoldfastResponse({
    request: context.req.raw,
    chatId,
    answer: async (abortSignal) =>
      streamText({ model, messages: await convertToModelMessages(messages), abortSignal }),
  });
});
app.get("/api/chat/:id/stream", ({ req }) => chats.resume({ request: req.raw, chatId: req.param("id") }));
app.delete("/api/chat/:id/stream", ({ req }) => chats.stop({ request: req.raw, chatId: req.param("id") }));
app.use("/*", serveStatic({ root: resolve(process.argv[2] ?? "examples/own-route/dist") }));

listen({ fetch: app.fetch, port: Number(process.env["PORT"] ?? 3000), hostname: "127.0.0.1" }, (address) =>
  console.log("ready", address),
);
