/**
 * A tool that runs longer than its connection: it runs once, and its result arrives once.
 *
 * The server asks the client for an exec; while the tool runs, the connection is cut twice.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Client, toolRunner, type Tools } from "../src/client/index.ts";
import { AgentClientMessageSchema, AgentServerMessageSchema } from "../src/protocol/public.ts";
import { nodeSealing } from "../src/sealing/node.ts";
import { type Application, createServer } from "../src/server/index.ts";
import { memoryStreamStore } from "../src/store/index.ts";
import { memoryTransport } from "../src/transport/index.ts";

const deployRequest = toBinary(
  AgentServerMessageSchema,
  create(AgentServerMessageSchema, {
    message: {
      case: "execServerMessage",
      value: { execId: "exec-1", message: { case: "mcpArgs", value: { name: "deploy" } } },
    },
  }),
);

/** Asks once, waits for the result, and ends. */
const application: Application = async (stream) => {
  let asked = false;
  for await (const _ of stream.past()) asked = true;
  for await (const input of stream.inputs) {
    if (!asked) await stream.emit(deployRequest);
    asked = true;
    if (input.kind !== "chunk" || input.seqno === 0) continue;
    const { message } = fromBinary(AgentClientMessageSchema, input.body);
    console.log(`the server has a result: ${message.case ?? "nothing"}`);
    return;
  }
};

const sealing = nodeSealing();
const store = await memoryStreamStore({ now: Date.now });
const server = createServer({ store, sealing, application });
const network = memoryTransport(server.accept, { principalOf: () => "me" });

const tools: Tools = {
  policy: () => ({ repeatable: false, needsApproval: false }),
  approve: async () => ({ allowed: true, untilMs: Date.now() + 60_000 }),
  async run({ id, execId, tool }) {
    console.log(`${tool} runs`);
    for (let cuts = 0; cuts < 2; cuts++) {
      for (const connection of network.connections) connection.cut();
      await sleep(300);
    }
    const result = { case: "success", value: {} } as const;
    const message = { case: "mcpResult", value: { result } } as const;
    const reply = { case: "execClientMessage", value: { id, execId, message } } as const;
    return toBinary(AgentClientMessageSchema, create(AgentClientMessageSchema, { message: reply }));
  },
  stopLeftover: () => undefined,
};

const homeKey = crypto.getRandomValues(new Uint8Array(32));
const client = new Client({ connect: network.connect, sealing, homeKey, tools: toolRunner(tools) });
const stream = await client.open({ first: new TextEncoder().encode("deploy, please") });
for await (const { end } of stream.events) {
  if (end !== undefined) console.log(`the stream ended: ${end}`);
}
await server.shutdown();
