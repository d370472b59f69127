/**
 * The bytes of a body on their way from its socket to one reader: what came since the last read is one piece.
 *
 * A provider that writes twenty words at once is read once, not twenty times. A web stream would hand on each of them alone, so there is one only for
 * readers that ask for it.
 *
 * Invariant: every byte that came is read before the end, or the reason why there are no more.
 */

/** Where they come from. */
export interface Flow {
  pause(): unknown;
  resume(): unknown;
}

/** A reader that is so far behind stops its provider. */
const BEHIND_BYTES = 64 * 1024;

export type Piece = Awaited<ReturnType<ReadableStreamDefaultReader<Uint8Array>["read"]>>;

/** The reading half, which a web stream's reader has as well. */
export interface Reader {
  read(): Promise<Piece>;
}

const DONE: Piece = { done: true, value: undefined };

export class ArrivingBytes implements Reader {
  readonly #flow: Flow;
  #came: Uint8Array[] = [];
  #byteCount = 0;
  #isOver = false;
  /** Why they are not all. */
  #broken: { readonly reason: unknown } | undefined;
  #wake: (() => void) | undefined;

  constructor(flow: Flow) {
    this.#flow = flow;
  }

  /** They stay as they are: nothing writes over them. */
  take(bytes: Uint8Array): void {
    this.#came.push(bytes);
    this.#byteCount += bytes.length;
    if (this.#byteCount > BEHIND_BYTES) this.#flow.pause();
    this.#wake?.();
  }

  /** There are no more. The first end counts. */
  end(): void {
    this.#isOver = true;
    this.#wake?.();
  }

  break(reason: unknown): void {
    if (!this.#isOver) this.#broken = { reason };
    this.end();
  }

  /** One at a time. */
  read(): Promise<Piece> {
    if (this.#came.length > 0 || this.#isOver) return this.#read();
    const woken = new Promise<void>((resolve) => (this.#wake = resolve));
    // What the same bytes of the socket bring comes before the promise.
    return woken.then(() => this.#read());
  }

  async #read(): Promise<Piece> {
    this.#wake = undefined;
    const [first, second] = this.#came;
    if (first !== undefined) {
      const value = second === undefined ? first : Buffer.concat(this.#came);
      this.#came = [];
      this.#byteCount = 0;
      if (!this.#isOver) this.#flow.resume();
      return { done: false, value };
    }
    if (this.#broken !== undefined) throw this.#broken.reason;
    return DONE;
  }

  /** The same for others. `leave` is called when they want no more. */
  stream(leave: (reason: unknown) => void): ReadableStream<Uint8Array> {
    return new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          const { done, value } = await this.read();
          if (done) controller.close();
          else controller.enqueue(value);
        },
        cancel: leave,
      },
      { highWaterMark: 0 },
    );
  }
}

/**
 * A response as the platform has it; `readerOf` reads it without the platform.
 *
 * The platform lists each response that has a stream, and a collection of young objects takes all of that list for alive: whatever such a response leads to,
 * a whole turn, grows old. So the stream is made for a reader that asks for it, and with it the headers, which the platform checks and sorts.
 */
class ArrivingResponse extends Response {
  readonly arriving: ArrivingBytes;
  readonly head: ResponseInit;
  readonly #leave: (reason: unknown) => void;
  #whole: Response | undefined;

  constructor(arriving: ArrivingBytes, head: ResponseInit, leave: (reason: unknown) => void) {
    super(null, { ...head, headers: [] });
    this.arriving = arriving;
    this.head = head;
    this.#leave = leave;
  }

  whole(): Response {
    this.#whole ??= new Response(this.arriving.stream(this.#leave), this.head);
    return this.#whole;
  }
}

for (const name of ["body", "bodyUsed", "headers"] as const) {
  Object.defineProperty(ArrivingResponse.prototype, name, {
    get(this: ArrivingResponse) {
      return this.whole()[name];
    },
  });
}
for (const name of ["arrayBuffer", "blob", "bytes", "clone", "formData", "json", "text"] as const) {
  Object.defineProperty(ArrivingResponse.prototype, name, {
    value(this: ArrivingResponse) {
      return this.whole()[name]();
    },
  });
}

export function arrivingResponse(
  bytes: ArrivingBytes,
  head: ResponseInit,
  leave: (reason: unknown) => void,
): Response {
  return new ArrivingResponse(bytes, head, leave);
}

/** As they came, with their names in small letters. */
export function headersOf(response: Response): [string, string][] {
  const came = response instanceof ArrivingResponse ? response.head.headers : undefined;
  return Array.isArray(came) ? came : [...response.headers];
}

export function readerOf(response: Response): Reader {
  if (response instanceof ArrivingResponse) return response.arriving;
  const { body } = response;
  const bytes: ReadableStream<Uint8Array> =
    body ?? new ReadableStream({ start: (controller) => controller.close() });
  return bytes.getReader();
}
