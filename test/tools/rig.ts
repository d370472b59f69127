/**
 * Tools in a workspace of their own, asked the way a stream asks: by encoded requests, answered by encoded replies.
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { TestContext } from "node:test";
import { create, fromBinary, type MessageInitShape, toBinary } from "../../src/protocol/message.ts";
import type { ToolRun } from "../../src/client/tools.ts";
import {
  AgentClientMessageSchema,
  AgentServerMessageSchema,
  type ExecClientMessage,
  type ExecRequest,
  type ExecServerMessageSchema,
  HoldfastError,
  readExec,
} from "../../src/protocol/index.ts";
import { parseToolsConfig } from "../../src/tools/index.ts";
import { createTools, type ToolSet, type ToolsOptions } from "../../src/tools/index.ts";

export type Request = NonNullable<MessageInitShape<typeof ExecServerMessageSchema>["message"]>;
export type Result = ExecClientMessage["message"];

/** Nobody is asked unless a test says otherwise; no sandbox, whatever the machine has. */
export const OPEN_CONFIG = {
  approvals: {
    write: "allow",
    delete: "allow",
    shell: "allow",
    mcp: "allow",
    function: "allow",
    subagent: "allow",
  },
  shell: { sandbox: "off" },
};

export function temporaryDirectory(t: TestContext, name: string): string {
  const path = realpathSync(mkdtempSync(join(tmpdir(), `holdfast-${name}-`)));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

export function put(root: string, files: Readonly<Record<string, string | Uint8Array>>): void {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), content);
  }
}

let lastId = 0;

export function request(message: Request): ExecRequest {
  lastId++;
  const value = { id: lastId, execId: `exec-${lastId}`, toolCallId: "call", message };
  const event = create(AgentServerMessageSchema, { message: { case: "execServerMessage", value } });
  const exec = readExec(toBinary(AgentServerMessageSchema, event));
  assert(exec !== undefined);
  return exec;
}

export function reply(body: Uint8Array): Result {
  const { message } = fromBinary(AgentClientMessageSchema, body);
  assert.equal(message.case, "execClientMessage");
  return message.value.message;
}

/** Blobs in memory; what is said is kept. */
export class Run implements ToolRun {
  readonly controller = new AbortController();
  readonly idempotencyKey = "stream";
  readonly blobs = new Map<string, Uint8Array>();
  readonly said: Result[] = [];
  readonly #waiters: (() => void)[] = [];

  readonly signal = this.controller.signal;

  readonly say = (body: Uint8Array): Promise<void> => {
    this.said.push(reply(body));
    for (const wake of this.#waiters.splice(0)) wake();
    return Promise.resolve();
  };

  readonly upload = (bytes: Uint8Array): Promise<string> => {
    const id = sha256(bytes).toString("hex");
    this.blobs.set(id, bytes);
    return Promise.resolve(id);
  };

  readonly download = (blobId: string): Promise<Uint8Array> => {
    const bytes = this.blobs.get(blobId);
    return bytes === undefined
      ? Promise.reject(new HoldfastError("not_found", "no such blob"))
      : Promise.resolve(bytes);
  };

  /** Until something that was said is as wanted. */
  async until(wanted: (said: readonly Result[]) => boolean): Promise<void> {
    while (!wanted(this.said)) await new Promise<void>((resolve) => void this.#waiters.push(resolve));
  }
}

export function sha256(bytes: Uint8Array | string): Buffer {
  return createHash("sha256").update(bytes).digest();
}

export interface Rig {
  readonly tools: ToolSet;
  readonly workspace: string;
  readonly state: string;
  readonly perform: (message: Request, run?: Run) => Promise<Result>;
}

export async function rig(
  t: TestContext,
  options: Partial<Omit<ToolsOptions, "config">> & { config?: object } = {},
): Promise<Rig> {
  const workspace = options.workspace ?? temporaryDirectory(t, "tools");
  const state = options.stateDirectory ?? temporaryDirectory(t, "state");
  const tools = await createTools({
    env: { PATH: "/usr/bin:/bin", HOME: workspace },
    ...options,
    workspace,
    stateDirectory: state,
    config: parseToolsConfig({ ...OPEN_CONFIG, ...options.config }),
  });
  t.after(() => tools.close());
  const perform = async (message: Request, run = new Run()) => reply(await tools.run(request(message), run));
  return { tools, workspace, state, perform };
}

/** The value of a result that must have this outcome. */
export function outcome(result: Result, expected: string): Readonly<Record<string, unknown>> {
  const inner = result.value?.result;
  assert.equal(
    inner?.case,
    expected,
    JSON.stringify(inner, (_, value: unknown) => (typeof value === "bigint" ? Number(value) : value)),
  );
  return { ...inner?.value };
}

export function inline(text: string | Uint8Array): { content: { case: "inline"; value: Uint8Array } } {
  return { content: { case: "inline", value: typeof text === "string" ? Buffer.from(text) : text } };
}
