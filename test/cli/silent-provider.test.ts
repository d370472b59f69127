/**
 * A provider that is configured and does not answer when the server starts: real processes, a real provider that comes later.
 */
import assert from "node:assert/strict";
import { createServer, type Server } from "node:http";
import { test, type TestContext } from "node:test";
import { Cli, type Running } from "./cli-process.ts";

test("a provider that is away is named at the start, its error is the answer, and it works once it is there", async (t) => {
  const port = await freePort();
  const cli = new Cli(t);
  const server = await cli.serve([], { OLLAMA_HOST: `http://127.0.0.1:${port}` });
  assert.match(
    server.stdout(),
    /^ {2}model +ollama\/default, and 1 more\. ollama: the provider cannot answer: no connection \(ECONNREFUSED\)\. Check that it runs/m,
  );
  assert.doesNotMatch(server.stdout(), /a script, no AI/);

  const refused = await ask(server);
  assert.equal(refused.status, 503);
  assert.match(refused.text, /ollama: the provider cannot answer: no connection \(ECONNREFUSED\)/);
  const chat = await cli.run(["chat", ...cli.inDataDir, "-p", "hello", "--no-tools"]);
  assert.equal(chat.code, 1);
  assert.equal(chat.stdout, "");
  assert.match(chat.stderr, /ollama: the provider cannot answer: no connection \(ECONNREFUSED\)/);

  await provider(t, port);
  const answered = await ask(server);
  assert.equal(answered.status, 200, answered.text);
  assert.match(answered.text, /from qwen3/);
  const later = await cli.run(["chat", ...cli.inDataDir, "-p", "hello", "--no-tools"]);
  assert.deepEqual([later.code, later.stdout], [0, "from qwen3\n"]);
});

async function ask({ url, apiKey }: Running): Promise<{ readonly status: number; readonly text: string }> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "ollama/default", messages: [{ role: "user", content: "hello" }] }),
  });
  return { status: response.status, text: await response.text() };
}

/** Has one model, which says its own name. */
async function provider(t: TestContext, port: number): Promise<void> {
  const server = createServer((request, response) => {
    request.resume();
    if (request.url === "/v1/models") {
      response.end(JSON.stringify({ data: [{ id: "qwen3" }] }));
      return;
    }
    const chunk = (delta: object, finish: string | null): string =>
      `data: ${JSON.stringify({ id: "1", object: "chat.completion.chunk", created: 1, model: "qwen3", choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(chunk({ role: "assistant", content: "from qwen3" }, null));
    response.end(`${chunk({}, "stop")}data: [DONE]\n\n`);
  });
  await listen(server, port);
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
}

async function freePort(): Promise<number> {
  const server = createServer();
  await listen(server, 0);
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === "object" && address !== null ? address.port : 0;
}

function listen(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", resolve);
  });
}
