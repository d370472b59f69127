/**
 * What a turn of many execs costs: its facts and decisions on the server, its tool journal on the client, without disk and network.
 *
 * Each exec has to cost the same, early and late: 2,000 are eight times 250, so ten times the cost is the most. And a server that reads such a
 * turn back lets others have their turn: between two of its pauses there is little work.
 */
import { create, toBinary } from "../../src/protocol/message.ts";
import { createHash } from "node:crypto";
import { TURN_LIMITS } from "../../src/agent/index.ts";
import { FOLDED_AT_ONCE } from "../../src/agent/turn-io.ts";
import * as toolJournal from "../../src/core/tool-journal.ts";
import { encodeChatMessage } from "../../src/protocol/chat-message.ts";
import {
  AgentClientMessageSchema,
  type AgentServerMessage,
  AgentServerMessageSchema,
} from "../../src/protocol/messages.ts";
import type { Decision } from "../../src/turn/decision.ts";
import { type Facts, heard, type Heard, logged, newFacts } from "../../src/turn/facts.ts";
import { next } from "../../src/turn/next.ts";
import type { Measured } from "../harness/numbers.ts";
import type { Line, Row } from "../harness/row.ts";
import type { Results, Rounds } from "../harness/rounds.ts";

const SIZES = [250, 2_000] as const;
const CALLS_PER_STEP = 10;
const GROWTH_MAX = 10;
const PIECE_MS_MAX = 50;

const idOf = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");
const LIMITS = { ...TURN_LIMITS, stepsMax: Number.MAX_SAFE_INTEGER, execsMax: Number.MAX_SAFE_INTEGER };

/** Both logs of a turn, as they come into being: what `next` decides is said, and each exec is answered at once. */
class Turn {
  readonly facts: Facts = newFacts(idOf);
  readonly events: AgentServerMessage[] = [];
  readonly chunks: Heard[] = [];
  readonly #execs: number;
  /** A server does not hold the logs that it writes. */
  readonly #keeps: boolean;
  #eventHead = 0;
  #nextSeqno = 0;

  constructor(execs: number, keeps = false) {
    this.#execs = execs;
    this.#keeps = keeps;
    this.#say({
      case: "runRequest",
      value: { action: { action: { case: "userMessageAction", value: {} } } },
    });
    this.facts.found.opened = OPENED;
  }

  run(): void {
    for (;;) {
      const decision = next(this.facts, LIMITS);
      if (decision.kind === "end") return;
      this.#carryOut(decision);
    }
  }

  #carryOut(decision: Decision): void {
    switch (decision.kind) {
      case "call_model":
        return this.#step(decision.place.step);
      case "issue":
        for (const { execId } of decision.execs) this.#exec(execId);
        return;
      case "complete":
        for (const { part, execIds } of decision.calls) {
          const toolCall = { toolCallId: part.toolCallId, execIds: [...execIds] };
          this.#tell({ case: "toolCallCompleted", value: { toolCall } });
        }
        return;
      case "yield":
        return;
      default:
        throw new Error(`nothing in this turn asks for ${decision.kind}`);
    }
  }

  #step(step: number): void {
    const left = this.#execs - step * CALLS_PER_STEP;
    const ids = Array.from({ length: Math.min(CALLS_PER_STEP, left) }, (_, at) => `${step}.0.${at}`);
    this.#tell({ case: "stepStarted", value: { step } });
    for (const id of ids)
      this.#tell({ case: "toolCallStarted", value: { toolCall: { toolCallId: id, execIds: [id] } } });
    const content = ids.map((toolCallId) => ({
      type: "tool-call" as const,
      toolCallId,
      tool: "tick",
      args: "{}",
    }));
    const value = encodeChatMessage({ role: "assistant", content });
    this.#tell({ case: "stepCompleted", value: { step, message: { content: { case: "inline", value } } } });
  }

  #exec(execId: string): void {
    const message = { case: "mcpArgs", value: { name: "tick" } } as const;
    this.#log(
      create(AgentServerMessageSchema, {
        message: { case: "execServerMessage", value: { execId, message } },
      }),
    );
    const result = { case: "mcpResult", value: { result: { case: "success", value: {} } } } as const;
    this.#say({ case: "execClientMessage", value: { execId, message: result } });
  }

  #tell(message: Update): void {
    const value = { message };
    this.#log(create(AgentServerMessageSchema, { message: { case: "interactionUpdate", value } }));
  }

  #log(message: AgentServerMessage): void {
    if (this.#keeps) this.events.push(message);
    logged(this.facts, ++this.#eventHead, message);
  }

  #say(message: Said): void {
    const body = toBinary(AgentClientMessageSchema, create(AgentClientMessageSchema, { message }));
    const chunk: Heard = { kind: "chunk", seqno: this.#nextSeqno++, body };
    if (this.#keeps) this.chunks.push(chunk);
    heard(this.facts, chunk);
  }
}

type Said = NonNullable<Parameters<typeof create<typeof AgentClientMessageSchema>>[1]>["message"] & {};
type Update = Extract<
  NonNullable<Parameters<typeof create<typeof AgentServerMessageSchema>>[1]>["message"] & {},
  { case: "interactionUpdate" }
>["value"]["message"] & {};

function declared(
  name: string,
  args: string,
): { kind: "declared"; name: string; server: string; args: string } {
  return { kind: "declared", name, server: "", args };
}

const OPENED = {
  contextTokensMax: 0,
  holdsCalls: false,
  keepsConversation: false,
  plans: { hasBuiltIns: false, plan: declared },
};

/** What a host does that reads the turn back, chunks first. */
function readBack({ chunks, events }: Turn): void {
  const facts = newFacts(idOf);
  for (const chunk of chunks) heard(facts, chunk);
  for (const [at, event] of events.entries()) logged(facts, at + 1, event);
}

/** The longest piece of work between two pauses of a host that reads the turn back and decides what is next: the agent's rules for its pauses. */
function longestPieceMs({ chunks, events }: Turn): number {
  const facts = newFacts(idOf);
  let longestMs = 0;
  let decided = "";
  const piece = (work: () => void): void => {
    longestMs = Math.max(longestMs, timed(1, work));
  };
  const decide = (): string => {
    piece(() => (decided = next(facts, LIMITS).kind));
    return decided;
  };
  for (let at = 0; at < chunks.length; at += FOLDED_AT_ONCE)
    piece(() => chunks.slice(at, at + FOLDED_AT_ONCE).forEach((chunk) => heard(facts, chunk)));
  for (let at = 0; at < events.length; at += FOLDED_AT_ONCE)
    piece(() =>
      events.slice(at, at + FOLDED_AT_ONCE).forEach((event, more) => logged(facts, at + more + 1, event)),
    );
  facts.found.opened = OPENED;
  while (decide() === "yield");
  return longestMs;
}

/** Every phase of each exec, as the client's journal keeps it. */
function keepJournal(execs: number): void {
  let state = toolJournal.init([], false);
  const feed = (input: toolJournal.Input): void => {
    [state] = toolJournal.step(state, input);
  };
  feed({ kind: "attached", sinceEvent: 0, nowMs: 0 });
  for (let at = 1; at <= execs; at++) {
    const execId = String(at);
    feed({ kind: "requested", execId, eventId: at, argsHash: "", repeatable: false, needsApproval: false });
    for (const phase of ["received", "started"] as const) feed({ kind: "recorded", execId, phase, nowMs: 0 });
    feed({ kind: "answered", execId, seqno: at });
    feed({ kind: "acked", nextSeqno: at + 1 });
  }
}

/** Processor time: whatever else the machine does is not counted. */
function timed(times: number, run: () => void): number {
  const began = process.cpuUsage();
  for (let done = 0; done < times; done++) run();
  const { user, system } = process.cpuUsage(began);
  return (user + system) / 1_000 / times;
}

async function measure(rounds: Rounds, size: number): Promise<Measured> {
  const execs = rounds.size(size, size / 50);
  // Compiled, before anything counts.
  for (let times = rounds.size(20, 1); times > 0; times--) {
    new Turn(SIZES[0]).run();
    keepJournal(SIZES[0]);
  }
  const whole = new Turn(execs, true);
  whole.run();
  // So often that all sizes work as long.
  const times = SIZES[1] / size;
  return {
    turnMs: timed(times, () => new Turn(execs).run()),
    readBackMs: timed(times, () => readBack(whole)),
    journalMs: timed(times, () => keepJournal(execs)),
    pieceMs: longestPieceMs(whole),
  };
}

function linesOf(results: Results): readonly Line[] {
  const [few, many] = SIZES.map(String);
  const line = (what: string, name: string): Line => {
    const ratio = results.ratio(many ?? "", few ?? "", name);
    return {
      what: `${many} execs: ${what}`,
      unit: "ms",
      value: results.spread(many ?? "", name),
      ratio: { to: `${few} execs`, value: ratio },
      budget: { text: `at most ${GROWTH_MAX} times`, met: ratio <= GROWTH_MAX },
    };
  };
  const piece = results.spread(many ?? "", "pieceMs");
  return [
    line("facts and decisions of the server", "turnMs"),
    line("the server reads the turn back", "readBackMs"),
    line("the client's tool journal", "journalMs"),
    {
      what: `${many} execs: read back, the longest work between two pauses`,
      unit: "ms",
      value: piece,
      budget: { text: `at most ${PIECE_MS_MAX} ms`, met: piece.median <= PIECE_MS_MAX },
    },
  ];
}

export const turnGrowth: Row = {
  name: "turn-growth",
  title: `a turn of ${SIZES.join(" and ")} execs: what its rules cost, without disk and network`,
  stepsPerRound: SIZES.length,
  async run(rounds) {
    const variants = SIZES.map((size) => [String(size), () => measure(rounds, size)] as const);
    return { lines: linesOf(await rounds.run(Object.fromEntries(variants))) };
  },
};
