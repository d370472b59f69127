/**
 * What a provider says that a request cost, found in an answer that is passed on as it is: the last `total_tokens` of its JSON or its events. Answers that say none
 * (audio, most images) cost none.
 *
 * Only the end of what has passed is kept, long enough for one such field.
 */
const FIELD = /"total_tokens"\s*:\s*(?<tokens>\d{1,12})(?=\D)/g;
const KEPT_CHARS = 64;

export class ReportedTokens {
  #end = "";
  #tokens = 0;

  take(piece: Uint8Array): void {
    const text = this.#end + Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength).toString("latin1");
    const said = [...text.matchAll(FIELD)].at(-1)?.groups?.["tokens"];
    if (said !== undefined) this.#tokens = Number(said);
    this.#end = text.slice(-KEPT_CHARS);
  }

  get tokens(): number {
    return this.#tokens;
  }
}
