/**
 * OpenAI's background responses: a run belongs to the provider and writes on when its connection dies.
 *
 * Events are numbered from 0. A run is read on by the number of the last one (`starting_after`); one that is no longer streamed, because it is
 * older than five minutes, is looked at as a whole, and what is missing behind the texts so far is said in its events' place. In both cases
 * the provider's own object of the whole answer proves the join.
 *
 * Invariant: an event is passed on when its number is one above the last one's, and the last event only when its object has every text
 * that was passed on (G1).
 */
import { fieldsOf } from "../../../protocol/fields.ts";
import { type Looked, type ResumeRequest, type Resumption, signInOf, type Verdict } from "./resumption.ts";
import type { SseEvent } from "./sse-events.ts";

type Fields = Readonly<Record<string, unknown>>;

/** The body of a request for such a run. A run that is to be read on is stored by the provider. */
export function inBackground(body: string): string {
  const fields: unknown = JSON.parse(body);
  return JSON.stringify({ ...fieldsOf(fields), background: true, store: true });
}

/** The deltas, by the kind of text that they belong to, and the field that counts its texts within an item. */
const DELTAS: Readonly<Record<string, readonly [kind: string, index: string]>> = {
  "response.output_text.delta": ["content", "content_index"],
  "response.refusal.delta": ["content", "content_index"],
  "response.reasoning_text.delta": ["content", "content_index"],
  "response.reasoning_summary_text.delta": ["summary", "summary_index"],
  "response.function_call_arguments.delta": ["arguments", ""],
  "response.custom_tool_call_input.delta": ["input", ""],
};

/** A text of the whole answer. */
interface Text {
  readonly place: string;
  readonly text: string;
  /** The event that brings more of it. */
  readonly delta: Fields;
}

export class BackgroundRun implements Resumption {
  readonly outlivesErrors = true;
  readonly #url: string;
  readonly #headers: Readonly<Record<string, string>>;
  #id: string | undefined;
  #last = -1;
  /** What was passed on, by place. */
  readonly #given = new Map<string, string>();
  readonly #begun = new Set<number>();
  readonly #done = new Set<number>();

  constructor(url: string, headers: Headers) {
    this.#url = url;
    this.#headers = signInOf(headers);
  }

  get stream(): ResumeRequest | undefined {
    return this.#request("GET", `?stream=true&starting_after=${this.#last}`);
  }

  get look(): ResumeRequest | undefined {
    return this.#request("GET", "");
  }

  get cancel(): ResumeRequest | undefined {
    return this.#request("POST", "/cancel");
  }

  #request(method: ResumeRequest["method"], rest: string): ResumeRequest | undefined {
    if (this.#id === undefined) return undefined;
    return { method, url: `${this.#url}/${encodeURIComponent(this.#id)}${rest}`, headers: this.#headers };
  }

  /** The first event has the run's name: it is needed before anything of it is passed on. */
  isNamedBy(events: readonly SseEvent[]): boolean {
    const ids = events.map(({ data }) => fieldsOf(parsed(data)["response"])["id"]);
    this.#id ??= ids.find((id) => typeof id === "string");
    return this.#id !== undefined;
  }

  take({ data }: SseEvent): Verdict {
    const event = parsed(data);
    const number = event["sequence_number"];
    // Comments and signs of life may have none.
    if (typeof number !== "number") return "next";
    if (number <= this.#last) return "known";
    if (number > this.#last + 1) return "gap";
    const response = fieldsOf(event["response"]);
    const isWhole = event["type"] === "response.completed" || event["type"] === "response.incomplete";
    if (isWhole && !this.#isProved(response, (given, whole) => given === whole)) return "contradiction";
    this.#last = number;
    this.#note(event);
    return "next";
  }

  #note(event: Fields): void {
    const [type, at] = [String(event["type"]), Number(event["output_index"])];
    if (type === "response.output_item.added") this.#begun.add(at);
    if (type === "response.output_item.done") this.#done.add(at);
    const [kind, index = ""] = DELTAS[type] ?? [];
    if (kind === undefined) return;
    const place = placeOf(at, kind, Number(event[index] ?? 0));
    this.#given.set(place, (this.#given.get(place) ?? "") + String(event["delta"]));
  }

  /** An object without any output says nothing about the texts: then the numbers are the proof. */
  #isProved(response: Fields, matches: (given: string, whole: string) => boolean): boolean {
    const output = itemsOf(response);
    if (output.length === 0) return true;
    const texts = new Map(output.flatMap(textsOf).map(({ place, text }) => [place, text]));
    return [...this.#given].every(([place, given]) => matches(given, texts.get(place) ?? ""));
  }

  readonly looked = (run: unknown): Looked => {
    const response = fieldsOf(run);
    switch (response["status"]) {
      case "queued":
      case "in_progress":
        return "running";
      case "completed":
      case "incomplete": {
        const hasLost = itemsOf(response).length === 0 && this.#given.size > 0;
        if (hasLost || !this.#isProved(response, (given, whole) => whole.startsWith(given)))
          return "contradiction";
        const type = `response.${response["status"]}`;
        const missing = itemsOf(response).flatMap((item, at) => this.#rest(item, at));
        return this.#said([...missing, { type, response }]);
      }
      case "failed":
        return this.#said([{ type: "response.failed", response }]);
      default:
        return "over";
    }
  };

  /** As the provider would have said them. */
  #said(events: readonly Fields[]): Looked {
    const rest = events.map((event, at): SseEvent => {
      const data = JSON.stringify({ ...event, sequence_number: this.#last + 1 + at });
      return { data, id: undefined, text: `event: ${String(event["type"])}\ndata: ${data}\n\n` };
    });
    return { rest };
  }

  /** The events that are missing of an item. */
  #rest(item: Fields, at: number): readonly Fields[] {
    if (this.#done.has(at)) return [];
    const begun = this.#begun.has(at)
      ? []
      : [{ type: "response.output_item.added", output_index: at, item: bare(item) }];
    const deltas = textsOf(item, at).flatMap(({ place, text, delta }) => {
      const more = { ...delta, delta: text.slice((this.#given.get(place) ?? "").length) };
      if (more.delta === "") return [];
      const isNewPart = !this.#given.has(place) && delta["summary_index"] !== undefined;
      return isNewPart ? [{ ...delta, type: "response.reasoning_summary_part.added" }, more] : [more];
    });
    return [...begun, ...deltas, { type: "response.output_item.done", output_index: at, item }];
  }
}

function placeOf(at: number, kind: string, index: number): string {
  return `${at} ${kind} ${index}`;
}

/** Every text of an item. */
function textsOf(item: Fields, at: number): readonly Text[] {
  const parts = ["content", "summary"].flatMap((kind) =>
    listOf(item[kind]).map((part, index): Text => {
      const isRefusal = typeof part["refusal"] === "string";
      const text = isRefusal ? part["refusal"] : part["text"];
      return textOf(item, at, { kind, index, text, type: deltaType(kind, isRefusal, item) });
    }),
  );
  const whole = ["arguments", "input"].flatMap((kind) =>
    typeof item[kind] === "string"
      ? [textOf(item, at, { kind, index: 0, text: item[kind], type: deltaType(kind, false, item) })]
      : [],
  );
  return [...parts, ...whole];
}

function textOf(
  item: Fields,
  at: number,
  { kind, index, text, type }: { kind: string; index: number; text: unknown; type: string },
): Text {
  const counted = DELTAS[type]?.[1] ?? "";
  const numbered = counted === "" ? {} : { [counted]: index };
  return {
    place: placeOf(at, kind, index),
    text: typeof text === "string" ? text : "",
    delta: { type, item_id: item["id"], output_index: at, ...numbered },
  };
}

function deltaType(kind: string, isRefusal: boolean, { type }: Fields): string {
  switch (kind) {
    case "summary":
      return "response.reasoning_summary_text.delta";
    case "arguments":
      return "response.function_call_arguments.delta";
    case "input":
      return "response.custom_tool_call_input.delta";
    default:
      if (isRefusal) return "response.refusal.delta";
      return type === "reasoning" ? "response.reasoning_text.delta" : "response.output_text.delta";
  }
}

/** An item as it is when it begins. */
function bare(item: Fields): Fields {
  const empty = Object.entries({ content: [], summary: [], arguments: "", input: "" });
  return { ...item, ...Object.fromEntries(empty.filter(([name]) => name in item)), status: "in_progress" };
}

function itemsOf(response: Fields): readonly Fields[] {
  return listOf(response["output"]);
}

function listOf(value: unknown): readonly Fields[] {
  return Array.isArray(value) ? value.map(fieldsOf) : [];
}

function parsed(data: string): Fields {
  try {
    return fieldsOf(JSON.parse(data));
  } catch {
    return {};
  }
}
