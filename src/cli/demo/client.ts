/**
 * The client process of `holdfast demo`: a turn with tools, begun or gone on with, and news of it on standard output.
 *
 * It is an ordinary client: journals on disk, tools that really run, resumed by `resumeAll`. Only its patience is
 * shorter than usual, so that the show is not mostly waiting. It ends when the demo does, however that ends.
 */
import { flushCompileCache } from "node:module";
import { join } from "node:path";
import process from "node:process";
import { fromBinary } from "../../protocol/message.ts";
import { Conversations, openClient, storesOf, type Turn } from "../../client-node/index.ts";
import { DEFAULTS as RETRY } from "../../core/retry.ts";
import type { ExecRequest } from "../../protocol/exec-codec.ts";
import { ExecServerMessageSchema } from "../../protocol/messages.ts";
import { createTools, parseToolsConfig, type ToolSet } from "../../tools/index.ts";
import { http2Connect } from "../../transport/node/http2-client.ts";
import { bodyOf, type News, textsOf } from "./news.ts";
import { MARK_VARIABLE } from "./stage.ts";

/** A dead connection is noticed by an unanswered ping; the usual 10 s would be a long silence on a stage. */
const PING_MS = 700;
/** It is killed, cut off and left alone far more often than any client in real life. */
const RETRY_OPTIONS = { ...RETRY, baseMs: 300, capMs: 500, budget: { burst: 100, refillMs: 500 } };

function tell(news: News): void {
  process.stdout.write(`${JSON.stringify(news)}\n`);
}

/** The same tools, and a word when one begins and ends. */
function observed(tools: ToolSet) {
  return {
    policy: (exec: ExecRequest) => tools.policy(exec),
    approve: (...args: Parameters<ToolSet["approve"]>) => tools.approve(...args),
    stopLeftover: (exec: ExecRequest) => tools.stopLeftover(exec),
    run: async (...[exec, run]: Parameters<ToolSet["run"]>): Promise<Uint8Array> => {
      const { execId, tool } = exec;
      tell({ kind: "runs", execId, tool, about: aboutOf(exec) });
      const result = await tools.run(exec, run);
      tell({ kind: "ran", execId });
      return result;
    },
  };
}

function aboutOf({ args }: ExecRequest): string {
  const { message } = fromBinary(ExecServerMessageSchema, args);
  const value: object = message.value ?? {};
  if ("command" in value) return String(value.command);
  return "path" in value ? String(value.path) : "";
}

function follow(turn: Turn): void {
  const { view, stream } = turn;
  const stepText = view.mark === undefined ? "" : (textsOf(view)[view.step] ?? "");
  tell({ kind: "follows", name: stream.idempotencyKey, cursor: view.eventId, stepText });
  turn.watch((_, heard) => {
    if (heard !== undefined) tell({ kind: "heard", eventId: heard.eventId, body: bodyOf(heard.message) });
  });
  let last = "";
  stream.watch(({ state, trouble }) => {
    if (state !== last) tell({ kind: "state", state, why: trouble?.message ?? "" });
    last = state;
  });
  void turn.ended.then(({ reason }) => tell({ kind: "over", reason, texts: textsOf(turn.view) }));
}

async function main([url = "", workspace = "", prompt = ""]: readonly string[]): Promise<void> {
  const tools = await createTools({
    workspace,
    stateDirectory: join(workspace, ".holdfast", "tools"),
    config: parseToolsConfig({
      approvals: { shell: "allow", read: "allow", write: "allow" },
      shell: { environment: [MARK_VARIABLE] },
    }),
  });
  const transport = http2Connect({ url, pingIntervalMs: PING_MS });
  const client = await openClient({
    connect: transport.connect,
    blobs: transport.blobs,
    directory: workspace,
    tools: observed(tools),
    // The show is about these: the environment has no say.
    reliable: true,
    persistence: true,
    stream: { retry: RETRY_OPTIONS, attachTimeoutMs: 2 * PING_MS },
  });
  const conversations = new Conversations({ client, ...storesOf(client), tools });
  const leave = async (): Promise<void> => {
    await client.close();
    await tools.close();
    transport.close();
    process.exit();
  };
  process.stdin.resume().once("end", () => void leave());
  const { turns } = await conversations.resumeAll(follow);
  if (turns.length === 0) {
    const conversation = await conversations.begin({ model: "rehearsal/rehearsal" });
    follow(await conversation.send({ text: prompt }));
  }
  // The next one starts faster; at an end by SIGKILL it would not be written.
  flushCompileCache();
}

await main(process.argv.slice(2));
