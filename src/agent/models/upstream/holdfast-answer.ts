/**
 * An answer of another Holdfast: its frames have ids, and `GET` with the last one as `Last-Event-ID` brings exactly the rest.
 *
 * The server says by itself that it is one (`x-holdfast-stream`), so nothing has to be configured. It proves the join: its answers are log
 * entries, and an id that is none of the answer's is refused.
 */
import { type ResumeRequest, type Resumption, signInOf, type Verdict } from "./resumption.ts";
import type { SseEvent } from "./sse-events.ts";

export const STREAM_HEADER = "x-holdfast-stream";
/** The path of the one answer, of servers that name it. */
const ANSWER_HEADER = "x-holdfast-resume";

export class HoldfastAnswer implements Resumption {
  /** Its errors are its own last word. */
  readonly outlivesErrors = false;
  readonly #request: ResumeRequest;
  readonly cancel: ResumeRequest;
  readonly look = undefined;
  #lastId: string | undefined;

  constructor(url: string, headers: Headers, answered: [string, string][]) {
    const response = new Headers(answered);
    const base = url.replace(/\/chat\/completions(?:\?.*)?$/, "");
    const stream = `${base}/streams/${encodeURIComponent(response.get(STREAM_HEADER) ?? "")}`;
    // A path behind `/v1`, which the configured address may have behind something else.
    const answer = response.get(ANSWER_HEADER)?.replace(/^\/v1\//, `${base}/`);
    const signIn = signInOf(headers);
    this.#request = { method: "GET", url: answer ?? `${stream}/events`, headers: signIn };
    this.cancel = { method: "DELETE", url: answer ?? stream, headers: signIn };
  }

  get stream(): ResumeRequest {
    const { headers } = this.#request;
    const last = this.#lastId === undefined ? {} : { "last-event-id": this.#lastId };
    return { ...this.#request, headers: { ...headers, ...last } };
  }

  /** Frames that are no progress repeat the id before them. */
  take({ id }: SseEvent): Verdict {
    this.#lastId = id ?? this.#lastId;
    return "next";
  }

  readonly looked = (): "over" => "over";
}
