/**
 * Server-sent events, frame by frame: only whole ones. What a broken connection leaves of a frame, also half of a letter, is never seen.
 */
export interface Frame {
  /** As it came, with the empty line behind it. */
  readonly text: string;
  readonly id: string | undefined;
  readonly data: string;
}

const END = "\n\n";

export class FrameReader {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #decoder = new TextDecoder();
  readonly #frames: Frame[] = [];
  #rest = "";

  constructor(body: ReadableStream<Uint8Array>) {
    this.#reader = body.getReader();
  }

  /** Undefined when the connection ended. Rejects when it broke. */
  async next(): Promise<Frame | undefined> {
    for (;;) {
      const frame = this.#frames.shift();
      if (frame !== undefined) return frame;
      const { done, value } = await this.#reader.read();
      if (done) return undefined;
      const texts = (this.#rest + this.#decoder.decode(value, { stream: true })).split(END);
      this.#rest = texts.pop() ?? "";
      this.#frames.push(...texts.map(frameOf));
    }
  }

  /** Reads the connection to its end, so that it can serve another request. The answer is whole: what becomes of it now does not matter. */
  drain(): void {
    const read = async (): Promise<void> => {
      while (!(await this.#reader.read()).done);
    };
    read().catch(() => undefined);
  }
}

function frameOf(text: string): Frame {
  const field = (name: string): string | undefined => new RegExp(`^${name}: ?(.*)$`, "m").exec(text)?.[1];
  return { text: text + END, id: field("id"), data: field("data") ?? "" };
}
