/**
 * One answer as it comes from the line: its head, then the body, whose bytes are handed on as they arrive.
 *
 * Invariant: the body is whole only when the line said so. A line, or a provider, that went away before is a broken connection, behind every
 * byte that came.
 */
import type { Socket } from "node:net";
import { ArrivingBytes, arrivingResponse } from "../upstream/arriving-bytes.ts";
import { Frames } from "./line-frames.ts";
import { type AnswerHead, answerIn, fieldsIn } from "./line-wire.ts";

/** What becomes of it. */
interface AnswerFate {
  /** Why there is no answer, when the line has none or has gone. */
  lost(cause: unknown): Error;
  /** The provider's connection, or the line's, has ended. */
  over(head: AnswerHead): void;
  /** It is not wanted any more. */
  leave(reason: unknown): void;
}

export class LineAnswer {
  readonly #bytes: ArrivingBytes;
  readonly #socket: Socket;
  readonly #fate: AnswerFate;
  readonly #frames = new Frames();
  readonly #answered = Promise.withResolvers<AnswerHead>();
  readonly head = this.#answered.promise;
  #begun: AnswerHead | undefined;
  #isOver = false;

  constructor(socket: Socket, fate: AnswerFate) {
    this.#socket = socket;
    this.#fate = fate;
    this.#bytes = new ArrivingBytes(socket);
    socket.on("data", (bytes) => this.#take(this.#frames.push(bytes)));
    socket.on("error", (error) => this.#break(error));
    socket.on("close", () => this.#break(undefined));
  }

  /** With the head that came. */
  response({ status, headers }: AnswerHead): Response {
    const head = { status, headers: Object.entries(headers) };
    return arrivingResponse(this.#bytes, head, (reason) => this.leave(reason));
  }

  leave(reason: unknown): void {
    if (this.#end(reason)) this.#fate.leave(reason);
  }

  #take(frames: readonly Buffer[]): void {
    const [first, ...later] = frames;
    if (first === undefined) return;
    if (this.#begun !== undefined) return this.#give(this.#begun, frames);
    const said = fieldsIn(first.toString());
    this.#begun = answerIn(said);
    if (this.#begun === undefined) {
      const { failure } = said;
      return void this.#end(typeof failure === "string" ? noAnswer(failure) : this.#fate.lost(said));
    }
    this.#answered.resolve(this.#begun);
    this.#give(this.#begun, later);
  }

  /** An empty frame is the end of an answer that is whole. */
  #give(head: AnswerHead, frames: readonly Buffer[]): void {
    const [first, second] = frames;
    const bytes = second === undefined ? first : Buffer.concat(frames);
    if (bytes !== undefined && bytes.length > 0) this.#bytes.take(bytes);
    if (frames.at(-1)?.length !== 0) return;
    this.#bytes.end();
    if (this.#end(undefined)) this.#fate.over(head);
  }

  #break(cause: unknown): void {
    const head = this.#begun;
    const reason = head === undefined ? this.#fate.lost(cause) : noAnswer("ECONNRESET", cause);
    if (this.#end(reason) && head !== undefined) this.#fate.over(head);
  }

  /** Once. A reader that is behind has what came first, and meets the reason when it asks for more. */
  #end(reason: unknown): boolean {
    if (this.#isOver) return false;
    this.#isOver = true;
    this.#socket.destroy();
    this.#answered.reject(reason);
    this.#bytes.break(reason);
    return true;
  }
}

/** As the platform's own `fetch` says it, so that the SDKs understand. */
export function noAnswer(code: string, cause?: unknown): TypeError {
  const why = Object.assign(new Error(code, { cause }), { code });
  return new TypeError("fetch failed", { cause: why });
}
