/**
 * The other side of a hosted turn: keeps blobs, answers for them, and carries out execs by a table.
 *
 * Each request is answered once per its id, however often the run behind it is replaced.
 */
import { createHash } from "node:crypto";
import type { MessageInitShape } from "../../src/protocol/message.ts";
import type {
  AgentServerMessage,
  ConversationState,
  ExecClientMessageSchema,
  ExecServerMessage,
  RunRequestSchema,
} from "../../src/protocol/messages.ts";
import { ExecKind } from "../../src/protocol/messages.ts";
import type { TurnHost } from "./turn-host.ts";

export type Reply = NonNullable<MessageInitShape<typeof ExecClientMessageSchema>["message"]>;

export const ALL_KINDS: readonly ExecKind[] = [
  ExecKind.SHELL_STREAM,
  ExecKind.READ,
  ExecKind.WRITE,
  ExecKind.DELETE,
  ExecKind.GREP,
  ExecKind.LS,
  ExecKind.GLOB,
  ExecKind.SUBAGENT,
];

export class KeepingClient {
  readonly host: TurnHost;
  readonly blobs: Map<string, Uint8Array>;
  /** How often each exec took effect: once, or something is wrong. */
  readonly effects = new Map<string, number>();
  readonly carriedOut: ExecServerMessage[] = [];
  checkpoint: ConversationState | undefined;
  carryOut: (exec: ExecServerMessage) => Reply | undefined = () => undefined;
  onQuery: (message: AgentServerMessage) => void = () => undefined;
  isMute = false;

  constructor(host: TurnHost, blobs = new Map<string, Uint8Array>()) {
    this.host = host;
    this.blobs = blobs;
    host.onEvent = (message) => this.#hear(message);
  }

  request(request: Omit<MessageInitShape<typeof RunRequestSchema>, "$typeName">): void {
    const whole = { conversationId: "c1", keepsBlobs: true, execKinds: [...ALL_KINDS], ...request };
    this.host.say({ case: "runRequest", value: whole });
  }

  ask(text: string, more: Omit<MessageInitShape<typeof RunRequestSchema>, "$typeName"> = {}): void {
    const action = { action: { case: "userMessageAction", value: { userMessage: { text } } } } as const;
    this.request({ action, ...more });
  }

  #hear(event: AgentServerMessage): void {
    const { message } = event;
    if (message.case === "conversationCheckpointUpdate") {
      // The rule of checkpoints: whatever it names was kept before.
      const { messages, turns, todos, messagePages, turnPages } = message.value;
      const pages = [...messagePages, ...turnPages].map(({ page }) => page);
      for (const id of [...messages, ...turns, ...todos, ...pages]) {
        if (!this.blobs.has(Buffer.from(id).toString("hex")))
          throw new Error("a checkpoint names a blob that nobody kept");
      }
      this.checkpoint = message.value;
    }
    if (this.isMute) return;
    if (message.case === "kvServerMessage") this.#answerKv(message.value);
    if (message.case === "interactionQuery") this.onQuery(event);
    if (message.case !== "execServerMessage") return;
    const { id, execId, toolCallId } = message.value;
    this.effects.set(execId, (this.effects.get(execId) ?? 0) + 1);
    this.carriedOut.push(message.value);
    const reply = this.carryOut(message.value);
    if (reply !== undefined)
      this.host.say({ case: "execClientMessage", value: { id, execId, toolCallId, message: reply } });
  }

  #answerKv({
    id,
    message,
  }: Extract<AgentServerMessage["message"], { case: "kvServerMessage" }>["value"]): void {
    if (message.case === "setBlobArgs") {
      const name = Buffer.from(message.value.blobId).toString("hex");
      const data = message.value.blobData ?? this.host.blobs.get(name);
      const isRight = data !== undefined && createHash("sha256").update(data).digest("hex") === name;
      if (isRight) this.blobs.set(name, data);
      const value = isRight ? {} : { error: "other bytes" };
      this.host.say({ case: "kvClientMessage", value: { id, message: { case: "setBlobResult", value } } });
    } else if (message.case === "getBlobArgs") {
      const blobData = this.blobs.get(Buffer.from(message.value.blobId).toString("hex"));
      const value = blobData === undefined ? { notFound: true } : { blobData };
      this.host.say({ case: "kvClientMessage", value: { id, message: { case: "getBlobResult", value } } });
    }
  }
}

export function shellDone(stdout: string, exitCode = 0): Reply {
  const value = { exitCode, stdout: { content: { case: "inline", value: Buffer.from(stdout) } } } as const;
  return { case: "shellStreamResult", value: { result: { case: "success", value } } };
}

export function readDone(text: string): Reply {
  const value = {
    content: { content: { case: "inline", value: Buffer.from(text) } },
    totalLines: text.split("\n").length,
    sizeBytes: Buffer.byteLength(text),
    sha256: createHash("sha256").update(text).digest(),
    mediaType: "text/plain",
  } as const;
  return { case: "readResult", value: { result: { case: "success", value } } };
}

export function writeDone(bytes: number): Reply {
  return { case: "writeResult", value: { result: { case: "success", value: { bytesWritten: bytes } } } };
}
