/**
 * A server's application that says what a test wants it to, event by event: servers that are not our agent, and moments that our agent
 * comes to only by accident.
 */
import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import {
  AgentServerMessageSchema,
  type BlobKind,
  FinishReason,
  type InteractionUpdateSchema,
  TurnEndReason,
} from "../../src/protocol/messages.ts";
import type { Application, ApplicationStream } from "../../src/server/index.ts";
import { blobIdOf } from "../../src/client/index.ts";

type Update = NonNullable<MessageInitShape<typeof InteractionUpdateSchema>["message"]>;
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
