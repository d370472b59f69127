/**
 * The page of the scenarios: a client that shows streams, keeps snapshots, and has one tool.
 *
 * What it shows of a stream is its whole history as this page knows it: what the snapshot had, and
 * every event since. The test compares it with what the server logged.
 */
import {
  type BrowserClient,
  type ClientStream,
  openClient,
  toolRunner,
} from "../../../src/client/browser/index.ts";
import type { Tools } from "../../../src/client/index.ts";
import { retry } from "../../../src/core/index.ts";
import { writeExecError } from "../../../src/protocol/index.ts";
import { offer } from "./calls.ts";

declare const localStorage: {
  getItem(name: string): string | null;
  setItem(name: string, value: string): void;
};

/** Soon enough for a test. */
const SOON = { ...retry.DEFAULTS, baseMs: 5, capMs: 50, budget: { burst: 10_000, refillMs: 1 } };
/** Never in a test's time, unless something wakes it. */
const LATE = { ...SOON, baseMs: 1e9, capMs: 1e9 };
const SNAPSHOT_EVERY = 5;

type Shown = readonly [eventId: number, body: string];

interface View {
  role: string;
  readonly stream: ClientStream;
  readonly events: Shown[];
  outcome: string;
}

const views = new Map<string, View>();
const bugs: string[] = [];
const notices: string[] = [];
let client: BrowserClient | undefined;
let finishTool: () => void = () => undefined;

const latin1 = (bytes: Uint8Array): string => String.fromCharCode(...bytes);

function theClient(): BrowserClient {
  if (client === undefined) throw new Error("start comes first");
  return client;
}

function show(stream: ClientStream, role: string): View {
  const events: Shown[] = restoredFrom(stream);
  const view: View = { role, stream, events, outcome: "" };
  views.set(stream.idempotencyKey, view);
  void follow(view).catch((cause: unknown) => (view.outcome = String(cause)));
  return view;
}

async function follow(view: View): Promise<void> {
  const { stream, events } = view;
  for await (const { eventId, body, end } of stream.events) {
    events.push([eventId, latin1(body)]);
    if (view.role === "writer" && end === undefined && events.length % SNAPSHOT_EVERY === 0) {
      stream.snapshot(eventId, new TextEncoder().encode(JSON.stringify(events)));
    }
    if (end !== undefined) view.outcome = end;
  }
}

function restoredFrom({ restored }: ClientStream): Shown[] {
  if (restored === undefined) return [];
  const kept: unknown = JSON.parse(new TextDecoder().decode(restored.state));
  if (!Array.isArray(kept)) throw new Error("the snapshot is no list");
  return kept.map((one: unknown): Shown => {
    if (!Array.isArray(one)) throw new Error("the snapshot has no events");
    return [Number(one[0]), String(one[1])];
  });
}

/** Effects are kept where a reload does not lose them: that is what makes them effects. */
const effects = (): string[] =>
  (localStorage.getItem("effects") ?? "").split(",").filter((one) => one !== "");
const tools: Tools = {
  policy: () => ({ repeatable: false, needsApproval: false }),
  approve: async () => ({ allowed: true, untilMs: Infinity }),
  run: async (exec) => {
    localStorage.setItem("effects", [...effects(), exec.execId].join());
    await new Promise<void>((resolve) => (finishTool = resolve));
    return writeExecError(exec, "done");
  },
  stopLeftover: () => undefined,
};

export interface StartOptions {
  readonly withTools?: boolean;
  /** Waits for very long before it tries again. */
  readonly isPatient?: boolean;
}

const chatPage = {
  start: async ({ withTools = false, isPatient = false }: StartOptions = {}) => {
    client = await openClient({
      apiKey: "secret",
      stream: { retry: isPatient ? LATE : SOON, heartbeatIntervalMs: 200 },
      onBug: (bug) => void bugs.push(String(bug)),
      onNotice: (notice) => void notices.push(notice),
      ...(withTools ? { tools: toolRunner(tools) } : {}),
    });
  },
  open: async (first: string) => {
    const stream = await theClient().open({ first: new TextEncoder().encode(first) });
    show(stream, "writer");
    return stream.idempotencyKey;
  },
  resumeAll: async () => {
    const report = await theClient().resumeAll((stream) => void show(stream, "writer"));
    return {
      resumed: report.resumed.map(({ idempotencyKey }) => idempotencyKey),
      elsewhere: report.elsewhere.map(({ idempotencyKey }) => idempotencyKey),
      kept: report.kept.map(({ reason }) => reason),
    };
  },
  join: (idempotencyKey: string) => {
    const joining = async (): Promise<void> => {
      for await (const { stream, role } of theClient().join(idempotencyKey)) show(stream, role);
    };
    joining().catch((cause: unknown) => void bugs.push(String(cause)));
  },
  send: async (idempotencyKey: string, text: string) =>
    (await views.get(idempotencyKey)?.stream.send(new TextEncoder().encode(text))) ?? -1,
  view: (idempotencyKey: string) => {
    const view = views.get(idempotencyKey);
    if (view === undefined) return { role: "none", state: "none", events: [], outcome: "" };
    const { role, stream, events, outcome } = view;
    return { role, state: stream.status.state, events, outcome };
  },
  abort: async (idempotencyKey: string) => views.get(idempotencyKey)?.stream.abort(),
  effects,
  finishTool: () => finishTool(),
  bugs: () => bugs,
  notices: () => notices,
  close: () => theClient().close(),
};

export type ChatPage = typeof chatPage;
offer(chatPage);
