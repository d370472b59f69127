/**
 * A request's body on its way to a provider: held until it is known whose model it names, then passed on at the provider's pace.
 *
 * Invariant: nothing leaves before the model is known, and the last byte leaves only when all of the body was looked through.
 */
import type { ClientRequest } from "node:http";
import type { Charge } from "../http/body-memory.ts";
import { type HttpCall, tooLarge, tooSlow } from "../http/http-call.ts";
import type { ModelField, ModelFinder } from "./model-field.ts";

interface BodyBounds {
  readonly bytesMax: number;
  /** From the first byte to the last. */
  readonly timeoutMs: number;
  /** Of what is held until the provider is reached. */
  readonly memory: Charge;
}

export class PassedBody {
  readonly #call: HttpCall;
  readonly #finder: ModelFinder;
  readonly #bounds: BodyBounds;
  readonly #model = Promise.withResolvers<ModelField>();
  readonly #sent = Promise.withResolvers<void>();
  #held: Uint8Array[] = [];
  #byteCount = 0;
  #isEnded = false;
  #isOver = false;
  #request: ClientRequest | undefined;
  readonly #timer: NodeJS.Timeout;

  constructor(call: HttpCall, finder: ModelFinder, bounds: BodyBounds) {
    this.#call = call;
    this.#finder = finder;
    this.#bounds = bounds;
    this.#model.promise.catch(() => undefined);
    this.#sent.promise.catch(() => undefined);
    this.#timer = setTimeout(() => this.#fail(tooSlow()), bounds.timeoutMs);
    call.onOver(() => this.release());
    if (this.#declared > bounds.bytesMax) this.#fail(tooLarge(bounds.bytesMax));
    else
      call.takeBody({
        received: (piece) => this.#guarded(() => this.#received(piece)),
        ended: () => this.#guarded(() => this.#ended()),
      });
  }

  /** As soon as it is known. Rejects with the error for the client. */
  get model(): Promise<ModelField> {
    return this.#model.promise;
  }

  /** All of it was given to the request. Rejects with the error for the client; the request is broken off then. */
  get sent(): Promise<void> {
    return this.#sent.promise;
  }

  /** How long the body will be under another name; undefined when the client did not say. */
  lengthWith(name: string): number | undefined {
    const { found } = this.#finder;
    if (this.#declared === 0 || found === undefined) return undefined;
    return this.#declared - (found.to - found.from) + this.#finder.written(name).length;
  }

  /** Begins to give it away, with the model under this name. */
  sendTo(request: ClientRequest, name: string): void {
    const { found } = this.#finder;
    if (found === undefined) throw new Error("the model is not known yet");
    const bytes = Buffer.concat(this.#held);
    this.#release();
    this.#request = request;
    request.on("drain", () => this.#call.exchange.resume());
    this.#write(
      Buffer.concat([bytes.subarray(0, found.from), this.#finder.written(name), bytes.subarray(found.to)]),
    );
    if (this.#isEnded) this.#finish();
  }

  /** Whatever is held is let go. */
  release(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#release();
  }

  /** 0 when the client did not say. */
  get #declared(): number {
    const length = Number(this.#call.exchange.header("content-length"));
    return Number.isSafeInteger(length) && length > 0 ? length : 0;
  }

  #received(piece: Uint8Array): void {
    if (this.#isOver) return;
    this.#byteCount += piece.length;
    if (this.#byteCount > this.#bounds.bytesMax) throw tooLarge(this.#bounds.bytesMax);
    const before = this.#finder.found;
    this.#finder.push(piece);
    if (this.#request !== undefined) {
      this.#write(piece);
      return;
    }
    this.#bounds.memory.take(piece.length);
    this.#held.push(piece);
    if (before !== undefined || this.#finder.found === undefined) return;
    // What comes until the provider is reached waits with its sender.
    this.#call.exchange.pause();
    this.#model.resolve(this.#finder.found);
  }

  #ended(): void {
    if (this.#isOver) return;
    this.#finder.end();
    this.#isEnded = true;
    clearTimeout(this.#timer);
    if (this.#request !== undefined) this.#finish();
  }

  #write(piece: Uint8Array): void {
    const hasRoom = this.#request?.write(piece) ?? true;
    if (hasRoom) this.#call.exchange.resume();
    else this.#call.exchange.pause();
  }

  #finish(): void {
    this.#request?.end();
    this.#sent.resolve();
  }

  #guarded(act: () => void): void {
    try {
      act();
    } catch (cause) {
      this.#fail(cause);
    }
  }

  #fail(cause: unknown): void {
    this.release();
    this.#request?.destroy();
    this.#model.reject(cause);
    this.#sent.reject(cause);
  }

  #release(): void {
    this.#held = [];
    this.#bounds.memory.release();
  }
}
