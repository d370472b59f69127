/**
 * A server of one's own with Holdfast inside, for the pages of `use-chat` and `use-conversation`:
 *
 *     npx vite build examples/use-chat --config examples/pages/vite.config.ts
 *     npx node examples/use-chat/server.ts examples/use-chat/dist
 */
import { createServer } from "node:http";
import { resolve } from "node:path";
import { serve } from "../../src/node/index.ts"; // in a project of yours: from "holdfast"
import { sendFile } from "../pages/files.ts";

const page = resolve(process.argv[2] ?? "examples/use-chat/dist");
const holdfast = await serve({ port: false, prefix: "/ai", data: process.env["DATA"] ?? "./data" });

const server = createServer((request, response) => {
  if (request.url?.startsWith("/ai/") === true) holdfast.listener(request, response);
  // Your login stands here: each of your users gets an API key of their own (`holdfast.keys`).
  else if (request.url === "/session") response.end(holdfast.apiKey);
  else void sendFile(page, request, response);
});
server.listen(Number(process.env["PORT"] ?? 3000), "127.0.0.1", () => console.log("ready", server.address()));
