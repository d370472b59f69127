/**
 * A server's application that says what a test wants it to, event by event: servers that are not our agent, and moments that our agent
 * comes to only by accident.
 */
import { create, fromBinary, type MessageInitShape, toBinary } from "../../src/protocol/message.ts";
import {
  type AgentClientMessage,
  AgentClientMessageSchema,
  AgentServerMessageSchema,
  type BlobKind,
  type ExecServerMessageSchema,
  FinishReason,
  type InteractionUpdateSchema,
  TurnEndReason,
} from "../../src/protocol/messages.ts";
import type { Application, ApplicationStream } from "../../src/server/index.ts";
import { blobIdOf } from "../../src/client/index.ts";

type Update = NonNullable<MessageInitShape<typeof InteractionUpdateSchema>["message"]>;
type ExecMessage = NonNullable<MessageInitShape<typeof ExecServerMessageSchema>["message"]>;
type Message = NonNullable<MessageInitShape<typeof AgentServerMessageSchema>["message"]>;

export class Speaker {
  readonly #stream: ApplicationStream;

  constructor(stream: ApplicationStream) {
    this.#stream = stream;
  }

  /** Resolves with the event's id. */
  update(message: Update): Promise<number> {
    return this.#stream.emit(encode({ case: "interactionUpdate", value: { message } }));
  }

  stepStarted(step: number): Promise<number> {
    return this.update({ case: "stepStarted", value: { step, model: "paced/model" } });
  }

  restarted(step: number, rollbackTo: number): Promise<number> {
    return this.update({
      case: "stepRestarted",
      value: { step, rollbackToEventId: String(rollbackTo), attempt: 1 },
    });
  }

  continued(step: number, rollbackTo: number): Promise<number> {
    const value = { step, rollbackToEventId: String(rollbackTo), continuation: 1, requestsBefore: 1 };
    return this.update({ case: "stepContinued", value });
  }

  text(text: string): Promise<number> {
    return this.update({ case: "textDelta", value: { text } });
  }

  stepCompleted(step: number): Promise<number> {
    return this.update({ case: "stepCompleted", value: { step, finishReason: FinishReason.STOP } });
  }

  setBlob(bytes: Uint8Array, kind: BlobKind): Promise<number> {
    const blobId = new Uint8Array(Buffer.from(blobIdOf(bytes), "hex"));
    const message = { case: "setBlobArgs", value: { blobId, blobData: bytes, kind } } as const;
    return this.#stream.emit(encode({ case: "kvServerMessage", value: { id: 1, message } }));
  }

  /** Asks the client for an exec; resolves with its reply. */
  async exec(execId: string, message: ExecMessage): Promise<AgentClientMessage> {
    await this.#stream.emit(encode({ case: "execServerMessage", value: { id: 1, execId, message } }));
    for await (const input of this.#stream.inputs) {
      if (input.kind !== "chunk") continue;
      const said = fromBinary(AgentClientMessageSchema, input.body);
      const isReply =
        (said.message.case === "execClientMessage" && said.message.value.execId === execId) ||
        said.message.case === "execClientControlMessage";
      if (isReply) return said;
    }
    throw new Error("nobody answers");
  }

  async end(): Promise<void> {
    const message = { case: "turnEnded", value: { reason: TurnEndReason.COMPLETED } } as const;
    await this.#stream.end(encode({ case: "interactionUpdate", value: { message } }));
  }
}

export function scriptedTurn(script: (speaker: Speaker) => Promise<void>): Application {
  return (stream) => script(new Speaker(stream));
}

function encode(message: Message): Uint8Array {
  return toBinary(AgentServerMessageSchema, create(AgentServerMessageSchema, { message }));
}
