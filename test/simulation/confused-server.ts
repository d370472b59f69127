/**
 * A server gone wrong, now and then: it asks for the same exec id again with other arguments, which nobody may carry out (C5), and
 * speaks on after an abort.
 *
 * The production turn does neither. So a second voice puts the forged request into its stream, and hides it from the turn: the
 * turn counts its own events, and whatever names one is translated.
 */
import { fromBinary, toBinary } from "../../src/protocol/message.ts";
import { AgentServerMessageSchema } from "../../src/protocol/messages.ts";
import type { ApplicationStream, ClientInput, PastEvent, KeptBlob } from "../../src/server/application.ts";
import type { Application } from "../../src/server/index.ts";
import { decodeTurnEvent, forgedExec, lateWords } from "./agent-messages.ts";

/** `isForging` is asked once for each exec. */
export function confusedServer(turn: Application, isForging: () => boolean): Application {
  return (stream) => turn(new SecondVoice(stream, isForging).asHeardByTheTurn());
}

class SecondVoice {
  readonly #stream: ApplicationStream;
  readonly #isForging: () => boolean;
  /** The events that are not the turn's, in the log's numbers. */
  readonly #forged: number[] = [];
  #head = 0;

  constructor(stream: ApplicationStream, isForging: () => boolean) {
    this.#stream = stream;
    this.#isForging = isForging;
  }

  asHeardByTheTurn(): ApplicationStream {
    const stream = this.#stream;
    // And it speaks on after an abort, which nobody may hear (D3).
    const speakOn = (): void => void stream.emit(lateWords()).catch(() => undefined);
    stream.signal.addEventListener("abort", speakOn, { once: true });
    return {
      principal: stream.principal,
      idempotencyKey: stream.idempotencyKey,
      pastInputs: stream.pastInputs,
      blobs: stream.blobs,
      conversation: stream.conversation,
      waits: (isWaiting) => stream.waits(isWaiting),
      lasting: stream.lasting,
      signal: stream.signal,
      inputs: { [Symbol.asyncIterator]: () => this.#inputs() },
      past: () => this.#past(),
      emit: (body, kept) => this.#emit(body, kept),
      end: async (body, reason) => this.#toTurn(await stream.end(body, reason)),
    };
  }

  #toTurn(eventId: number): number {
    return eventId - this.#forged.filter((forged) => forged <= eventId).length;
  }

  #toLog(eventId: number): number {
    return this.#forged.reduce((id, forged) => (forged <= id ? id + 1 : id), eventId);
  }

  async *#past(): AsyncGenerator<PastEvent> {
    for await (const { eventId, body } of this.#stream.past()) {
      this.#head = eventId;
      if (!this.#forged.includes(eventId)) yield { eventId: this.#toTurn(eventId), body };
    }
  }

  /** The turn reads its inputs first, and a takeover among them names an event. */
  async *#inputs(): AsyncGenerator<ClientInput> {
    for await (const { eventId, body } of this.#stream.past()) {
      const event = body.length === 0 ? undefined : decodeTurnEvent(body);
      if (event?.kind === "exec" && event.isForged) this.#forged.push(eventId);
    }
    for await (const input of this.#stream.inputs) {
      yield input.kind === "takeover" ? { ...input, sinceEvent: this.#toTurn(input.sinceEvent) } : input;
    }
  }

  async #emit(body: Uint8Array, kept: readonly KeptBlob[] | undefined): Promise<number> {
    const event = decodeTurnEvent(body);
    this.#head++;
    const namesEvent = event.kind === "step_restarted" || event.kind === "step_continued";
    const durable = this.#stream.emit(namesEvent ? this.#translated(body) : body, kept);
    if (event.kind === "exec" && this.#isForging()) {
      this.#forged.push(++this.#head);
      this.#stream.emit(forgedExec(event.execId)).catch(() => undefined);
    }
    return this.#toTurn(await durable);
  }

  #translated(body: Uint8Array): Uint8Array {
    const said = fromBinary(AgentServerMessageSchema, body);
    const update = said.message.case === "interactionUpdate" ? said.message.value.message : undefined;
    if (update?.case === "stepRestarted" || update?.case === "stepContinued")
      update.value.rollbackToEventId = String(this.#toLog(Number(update.value.rollbackToEventId)));
    return toBinary(AgentServerMessageSchema, said);
  }
}
