/**
 * OpenAI's background responses: a run belongs to the provider and lives on when its connection dies. It is read again from any event on,
 * looked at as a whole, and cancelled.
 *
 * A run is over when its last event was read, when it was seen complete, or when it was cancelled; until then it costs money.
 */
import { type Break, breakPlace, saying } from "./breaking.ts";
import { type Frame, RESPONSES } from "./formats.ts";
import { type Act, type Asked, fieldsOf, refuses } from "./server.ts";

export interface BackgroundOptions {
  /** How reading a run again breaks, time by time; later ones do not. */
  readonly resumeBreaks?: readonly (Break | undefined)[];
  /** Reading a run again is refused, as it is when the run is older than five minutes. */
  readonly isTooOld?: boolean;
  /** So many requests about a run are answered with 404, as just after its beginning. */
  readonly missing?: number;
  /** A run is complete when it is looked at for this time: 1 by default. */
  readonly polls?: number;
  /** Runs cannot be cancelled: the request is answered with 500. */
  readonly isUncancellable?: boolean;
  /** Takes the place of the last event, and of what a look at a complete run shows. */
  readonly lastFrame?: Frame;
  /** A run begins to be answered when this resolves. */
  readonly begins?: Promise<void>;
  /** `background` is refused, as of accounts that store nothing. */
  readonly isRefused?: boolean;
}

interface Run {
  readonly id: string;
  readonly frames: readonly Frame[];
  looks: number;
  isOver: boolean;
}

const RUN = /\/responses\/(?<id>[^/?]+)(?<cancel>\/cancel)?(?<query>\?.*)?$/;

export class BackgroundRuns {
  readonly counts = { resumed: 0, polled: 0, cancelled: 0 };
  readonly #options: BackgroundOptions;
  readonly #runs = new Map<string, Run>();
  readonly #breaks: (Break | undefined)[];
  #missing: number;

  constructor(options: BackgroundOptions = {}) {
    this.#options = options;
    this.#breaks = [...(options.resumeBreaks ?? [])];
    this.#missing = options.missing ?? 0;
  }

  /** What is still paid for. */
  get running(): readonly string[] {
    return [...this.#runs.values()].flatMap(({ id, isOver }) => (isOver ? [] : [id]));
  }

  static isAbout({ path }: Asked): boolean {
    return RUN.test(path);
  }

  begin(frames: readonly Frame[], broken: Break | undefined): Act {
    if (this.#options.isRefused === true)
      return refuses(400, RESPONSES.error(400, "unsupported_parameter", "background is not available"));
    const id = `resp_${this.#runs.size + 1}`;
    const { lastFrame } = this.#options;
    const all = lastFrame === undefined ? frames : [...frames.slice(0, -1), lastFrame];
    const run = { id, frames: all.map((frame) => named(frame, id)), looks: 0, isOver: false };
    this.#runs.set(id, run);
    const act = this.#read(run, 0, broken);
    return async (response, asked) => {
      await this.#options.begins;
      await act(response, asked);
    };
  }

  /** What a request about a run is answered. */
  answer(asked: Asked): Act {
    const { id = "", cancel, query = "" } = RUN.exec(asked.path)?.groups ?? {};
    const run = this.#runs.get(id);
    if (cancel !== undefined) return this.#cancel(run);
    const parameters = new URLSearchParams(query);
    const isStream = parameters.get("stream") === "true";
    if (isStream) this.counts.resumed++;
    else this.counts.polled++;
    if (run === undefined || this.#missing-- > 0)
      return refuses(404, RESPONSES.error(404, "not_found", `Response with id '${id}' not found.`));
    if (!isStream) return this.#look(run);
    if (this.#options.isTooOld === true)
      return refuses(400, RESPONSES.error(400, "invalid_request_error", "the stream is too old"));
    const after = Number(parameters.get("starting_after") ?? "-1");
    return this.#read(run, after + 1, this.#breaks.shift());
  }

  #read(run: Run, from: number, broken: Break | undefined): Act {
    const rest = run.frames.slice(from);
    const act = saying(RESPONSES, rest, broken);
    return async (response, asked) => {
      const over = new Promise<void>((resolve) => void response.once("finish", resolve));
      // Its last event was said, whatever became of the connection behind it.
      if (broken !== undefined && breakPlace(rest, broken) >= rest.length) run.isOver = true;
      if (broken === undefined) void over.then(() => (run.isOver = true));
      await act(response, asked);
    };
  }

  #look(run: Run): Act {
    const isComplete = ++run.looks >= (this.#options.polls ?? 1);
    if (isComplete) run.isOver = true;
    const last = fieldsOf(run.frames.at(-1)?.data)["response"];
    const first = fieldsOf(run.frames[0]?.data)["response"];
    return refuses(200, isComplete ? last : first);
  }

  #cancel(run: Run | undefined): Act {
    if (run === undefined) return refuses(404, RESPONSES.error(404, "not_found", "no such response"));
    if (this.#options.isUncancellable === true)
      return refuses(500, RESPONSES.error(500, "server_error", "no"));
    this.counts.cancelled++;
    run.isOver = true;
    return refuses(200, { ...fieldsOf(fieldsOf(run.frames[0]?.data)["response"]), status: "cancelled" });
  }
}

/** The run's id in the events that have the response in them. */
function named({ place, data }: Frame, id: string): Frame {
  const event = fieldsOf(data);
  if (event["response"] === undefined) return { place, data };
  return { place, data: { ...event, response: { ...fieldsOf(event["response"]), id, background: true } } };
}
