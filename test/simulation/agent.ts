/**
 * The application of the simulation: a turn of several model steps with parallel tools.
 *
 * Its model is as unreliable as real ones: asked again it answers something else. What keeps the
 * turn whole over crashes is the production `exec-ledger`; this file only feeds it, the same way
 * live and after a restart, and does what it says.
 */
import * as ledger from "./exec-ledger.ts";
import type { ApplicationStream, ClientInput } from "../../src/server/application.ts";
import type { Application } from "../../src/server/index.ts";
import { decodeSaying, decodeTurnEvent, encodeTurnEvent, FORGED, type TurnEvent } from "./agent-messages.ts";
import type { Ledger } from "./ledger.ts";
import type { Environment } from "../../src/transport/environment.ts";

/** What the agent needs of the process it runs in, simulated or real. */
export interface AgentProcess {
  readonly env: Pick<Environment, "random" | "after">;
  readonly world: { readonly seed: number };
}

const TOOLS = ["shell", "read", "write"] as const;

export function simulatedAgent(process: AgentProcess, outside: Pick<Ledger, "issued">): Application {
  return (stream) => new Turn(process, outside, stream).run();
}

class Turn {
  readonly #process: AgentProcess;
  readonly #outside: Pick<Ledger, "issued">;
  /** Some models are slow: then a step lives through more than one crash. */
  readonly #pace: number;
  readonly #stream: ApplicationStream;
  #book = ledger.init();
  #hasEnded = false;
  #isEndless = false;
  #minted = 0;
  #stepsMax = 1;
  #inputs: AsyncIterator<ClientInput> | undefined;
  #pending: Promise<IteratorResult<ClientInput>> | undefined;

  constructor(process: AgentProcess, outside: Pick<Ledger, "issued">, stream: ApplicationStream) {
    this.#process = process;
    this.#outside = outside;
    this.#pace = process.world.seed % 8 === 0 ? 15 : 1;
    this.#stream = stream;
  }

  async run(): Promise<void> {
    this.#inputs = this.#stream.inputs[Symbol.asyncIterator]();
    for (let taken = 0; taken < this.#stream.pastInputs; taken++) await this.#take();
    for await (const { eventId, body } of this.#stream.past()) {
      if (body.length > 0) this.#feedEvent(decodeTurnEvent(body), eventId);
    }
    if (this.#hasEnded) return;
    await this.#carryOut(this.#feed({ kind: "recovered" }));
    this.#stepsMax = 1 + Math.floor(this.#process.env.random() * 4);
    // The first words say what is wanted; without them there is nothing to do.
    if (this.#stream.pastInputs === 0) await this.#take();
    while (!this.#isOver()) {
      if (ledger.isReadyForStep(this.#book)) {
        if (this.#book.steps >= this.#stepsMax && !this.#isEndless) break;
        await this.#step(undefined);
      } else {
        await this.#take();
      }
    }
    if (!this.#hasEnded) await this.#stream.end(encodeTurnEvent({ kind: "turn_ended" }));
  }

  #isOver(): boolean {
    return this.#stream.signal.aborted || this.#hasEnded;
  }

  /** One model call: text and tool calls in any mixture, then the end of the output. */
  async #step(rollbackTo: number | undefined): Promise<void> {
    const { env } = this.#process;
    const step = this.#book.steps;
    if (rollbackTo === undefined) await this.#emit({ kind: "step_started", step });
    else await this.#emit({ kind: "step_restarted", step, rollbackTo });
    const deltas = Math.floor(env.random() * 6);
    const calls = this.#isEndless ? 0 : Math.floor(env.random() * 3);
    for (let at = 0; at < deltas + calls && !this.#isOver(); at++) {
      await this.#sleep(this.#pace * (env.random() < 0.2 ? 3_000 * env.random() : 50 * env.random()));
      if (at < deltas) this.#emitSoon({ kind: "text", text: `${Math.floor(env.random() * 1_000)} ` });
      else await this.#emit({ kind: "exec_planned", execId: this.#mint(step) });
    }
    if (this.#isEndless) await this.#sleep(4_000);
    if (!this.#isOver()) await this.#emit({ kind: "step_completed", step });
  }

  #mint(step: number): string {
    this.#minted++;
    return `e${step}.${Math.floor(this.#process.env.random() * 1e9).toString(36)}.${this.#minted}`;
  }

  async #carryOut(effects: readonly ledger.Effect[]): Promise<void> {
    for (const effect of effects) {
      switch (effect.kind) {
        case "issue": {
          const { execId } = effect;
          // Tool and arguments follow from the id, as they would from the logged tool call.
          this.#outside.issued(execId, this.#stream.idempotencyKey);
          const tool = TOOLS[execId.length % TOOLS.length] ?? "shell";
          await this.#emit({ kind: "exec", execId, tool, args: `work ${execId}` });
          // A server gone wrong: the same exec id with other arguments. Nobody may carry that out (C5).
          const isConfused = this.#process.env.random() < 0.03;
          if (isConfused) this.#emitSoon({ kind: "exec", execId, tool, args: `${FORGED} ${execId}` });
          if (this.#process.env.random() < 0.1) this.#takeBackLater(execId);
          break;
        }
        case "settled":
          break;
        case "restart_step":
          await this.#step(effect.rollbackTo);
          break;
        case "fail_turn":
          this.#hasEnded = true;
          await this.#stream.end(encodeTurnEvent({ kind: "turn_ended" }), "failed");
          break;
      }
    }
  }

  /** At once, or when it is being thought about, runs, or is over. */
  #takeBackLater(execId: string): void {
    const { env } = this.#process;
    const delayMs = env.random() < 0.3 ? 0 : 15_000 * env.random();
    env.after(delayMs, () => {
      if (!this.#isOver()) this.#emitSoon({ kind: "exec_taken_back", execId });
    });
  }

  async #emit(event: TurnEvent): Promise<void> {
    const eventId = await this.#stream.emit(encodeTurnEvent(event));
    await this.#carryOut(this.#feedEvent(event, eventId));
  }

  #emitSoon(event: TurnEvent): void {
    void this.#stream.emit(encodeTurnEvent(event));
  }

  #feedEvent(event: TurnEvent, eventId: number): readonly ledger.Effect[] {
    switch (event.kind) {
      case "step_started":
      case "step_restarted":
        return this.#feed({ kind: event.kind, eventId });
      case "exec_planned":
        return this.#feed({ kind: "exec_planned", execId: event.execId });
      case "step_completed":
        return this.#feed({ kind: "step_completed" });
      case "exec":
        if (event.args.startsWith(FORGED)) return [];
        return this.#feed({ kind: "exec_issued", execId: event.execId, eventId });
      case "turn_ended":
        this.#hasEnded = true;
        return [];
      case "text":
      case "exec_taken_back":
      case "exec_settled":
        return [];
    }
  }

  #feed(input: ledger.Input): readonly ledger.Effect[] {
    const [next, effects] = ledger.step(this.#book, input);
    this.#book = next;
    return effects;
  }

  /** Takes one thing that the client's side said; the end of the inputs ends the waiting. */
  async #take(): Promise<void> {
    this.#pending ??= this.#inputs?.next();
    const next = await this.#pending;
    this.#pending = undefined;
    if (next === undefined || next.done === true) {
      this.#hasEnded = this.#stream.signal.aborted ? this.#hasEnded : true;
      return;
    }
    const input = next.value;
    if (input.kind === "takeover") {
      this.#feed({ kind: "takeover", takeover: input });
    } else if (input.kind === "close") {
      this.#feed({ kind: "closed", seqno: input.seqno });
    } else {
      const said = decodeSaying(input.body);
      if (said.kind === "result") this.#feed({ kind: "result", execId: said.execId, seqno: input.seqno });
      else if (said.kind === "words" && input.seqno === 0) this.#isEndless = said.endless;
    }
  }

  #sleep(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.#process.env.after(delayMs, resolve);
    });
  }
}
