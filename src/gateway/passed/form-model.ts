/**
 * The field `model` of a form, found while its parts come.
 *
 * Files are passed over by looking for the boundary behind them. Parts must describe themselves in the one way that browsers and SDKs do:
 * another spelling of a field's name could hide a second model from this reader and not from the provider.
 */
import {
  malformed,
  type ModelField,
  type ModelFinder,
  NAME_CHARS_MAX,
  noModelNamed,
  twoModels,
} from "./model-field.ts";

const LINE_END = Buffer.from("\r\n");
const HEAD_BYTES_MAX = 8 * 1024;
const PARTS_MAX = 256;
const DISPOSITION =
  /^content-disposition: *form-data; *name="(?<name>[^"\\\r\n]*)"(?:; *filename="[^"\r\n]*")?(?:; *filename\*=[\w!#$&+.^`|~%'-]+)?$/i;
const OTHER_HEADER = /^(?:content-type|content-length|content-transfer-encoding): *[^\r\n]*$/i;

type State = "boundary" | "after_boundary" | "head" | "body" | "over";

export class FormModel implements ModelFinder {
  found: ModelField | undefined;
  readonly #boundary: Buffer;
  #state: State = "boundary";
  /** What was not taken yet, and where it stands in the body. */
  #rest: Buffer = Buffer.alloc(0);
  #from = 0;
  #parts = 0;
  #isModel = false;

  constructor(boundary: string) {
    this.#boundary = Buffer.from(`--${boundary}`);
  }

  push(piece: Uint8Array): void {
    this.#rest = this.#rest.length === 0 ? Buffer.from(piece) : Buffer.concat([this.#rest, piece]);
    while (this.#step());
  }

  end(): void {
    if (this.#state !== "over") throw malformed("is a form that breaks off");
    if (this.found === undefined) throw noModelNamed();
  }

  written(name: string): Uint8Array {
    return Buffer.from(name);
  }

  /** False when more has to come. */
  #step(): boolean {
    switch (this.#state) {
      case "boundary":
        return this.#first();
      case "after_boundary":
        return this.#behindBoundary();
      case "head":
        return this.#head();
      case "body":
        return this.#body();
      case "over":
        this.#take(this.#rest.length);
        return false;
    }
  }

  #first(): boolean {
    const { length } = this.#boundary;
    if (this.#rest.length < length) return false;
    if (!this.#rest.subarray(0, length).equals(this.#boundary))
      throw malformed("is a form that does not begin with its boundary");
    return this.#go("after_boundary", length);
  }

  #behindBoundary(): boolean {
    if (this.#rest.length < 2) return false;
    const mark = this.#rest.subarray(0, 2).toString("latin1");
    if (mark === "--") return this.#go("over", 2);
    if (mark !== "\r\n") throw malformed("is a form with something behind a boundary");
    if (++this.#parts > PARTS_MAX) throw malformed(`is a form of more than ${PARTS_MAX} parts`);
    return this.#go("head", 2);
  }

  #head(): boolean {
    const end = this.#rest.indexOf("\r\n\r\n");
    if (end === -1 ? this.#rest.length > HEAD_BYTES_MAX : end > HEAD_BYTES_MAX)
      throw malformed("is a form with a part whose head is too large");
    if (end === -1) return false;
    const lines = this.#rest.subarray(0, end).toString().split("\r\n");
    const names = lines.flatMap((line) => DISPOSITION.exec(line)?.groups?.["name"] ?? []);
    const others = lines.filter((line) => OTHER_HEADER.test(line));
    const [name] = names;
    if (name === undefined || names.length > 1 || names.length + others.length < lines.length)
      throw malformed('is a form with a part that is not described as form-data; name="..."');
    this.#isModel = name.toLowerCase() === "model";
    if (this.#isModel && (this.found !== undefined || name !== "model")) throw twoModels();
    return this.#go("body", end + 4);
  }

  #body(): boolean {
    const at = this.#rest.indexOf(this.#boundary);
    const size =
      at === -1 ? this.#rest.length - this.#boundary.length - LINE_END.length : at - LINE_END.length;
    if (this.#isModel && size > NAME_CHARS_MAX) throw noModelNamed();
    if (at === -1) {
      // What may be the beginning of a line's end and a boundary stays.
      if (!this.#isModel) this.#take(Math.max(0, size));
      return false;
    }
    // Boundaries are made so that no file holds one. Where else one stands, readers do not agree on what it is.
    if (size < 0 || !this.#rest.subarray(size, at).equals(LINE_END))
      throw malformed("is a form with a boundary in the middle of a part");
    if (this.#isModel) this.#modelIs(this.#rest.subarray(0, size));
    return this.#go("after_boundary", at + this.#boundary.length);
  }

  #modelIs(bytes: Buffer): void {
    const name = bytes.toString();
    if (name === "" || name.length > NAME_CHARS_MAX || /[\r\n]/.test(name)) throw noModelNamed();
    this.found = { name, from: this.#from, to: this.#from + bytes.length };
  }

  #go(state: State, byteCount: number): true {
    this.#take(byteCount);
    this.#state = state;
    return true;
  }

  #take(byteCount: number): void {
    this.#rest = this.#rest.subarray(byteCount);
    this.#from += byteCount;
  }
}
