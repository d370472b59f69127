/**
 * A conversation with tools whose server and client are killed at random moments, and then compared with one in which
 * nothing was.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { AgentServer, type AgentProcess, type Desk } from "./agent-rig.ts";
import { compareTurns, type TurnFindings } from "./agent-turns.ts";

export interface AgentKillOptions {
  readonly cycles: number;
  readonly say: (line: string) => void;
}

export interface AgentKillReport extends TurnFindings {
  readonly clientKills: number;
  readonly serverKills: number;
}

/** Three steps: thinking, text, a command, a function and a new file; an edit and a slow command; an answer. */
const PROMPT = `pace 8 ms
think what is turn % about, and what is to be done first?
say Turn %: looking at what there is.
shell echo shell-% >> effects
call append {"file":"effects","line":"append-%"}
call write {"path":"notes-%","content":"old %"}
say Turn %: now the edit.
edit notes-% "old" -> "new"
shell sleep 0.1; echo slow-% >> effects
say Turn %: that was all.`;

/** A step that is cut off four times fails its turn, rightly (F1). So many kills of the server in a row leave room for one. */
const SERVER_KILLS_IN_A_ROW_MAX = 3;

const TURN = { prompt: PROMPT, turns: Number.MAX_SAFE_INTEGER };

/** Throws at the first difference. */
export async function runAgentKills(options: AgentKillOptions): Promise<AgentKillReport> {
  const server = new AgentServer();
  try {
    await server.start();
    return await new Run(server, options).go();
  } finally {
    await server.close();
  }
}

class Run {
  readonly #server: AgentServer;
  readonly #options: AgentKillOptions;
  readonly #desk: Desk;
  #client: AgentProcess;
  #clientKills = 0;
  #serverKills = 0;
  /** Since a turn was last seen to end. */
  #killsInARow = 0;

  constructor(server: AgentServer, options: AgentKillOptions) {
    this.#server = server;
    this.#options = options;
    this.#desk = server.desk();
    this.#client = this.#desk.start(TURN);
  }

  async go(): Promise<AgentKillReport> {
    const { cycles, say } = this.#options;
    // The first turn is the one that the others are compared with.
    await this.#client.hears("ended");
    for (let cycle = 1; cycle <= cycles; cycle++) {
      await this.#killOne();
      if (cycle % 10 === 0) say(`${cycle} of ${cycles} kills`);
    }
    // Nothing is killed any more: everything comes to its end.
    this.#client.say("finish");
    const { messages } = await this.#client.hears("over");
    const findings = compareTurns(messages, {
      effects: this.#desk.lines("effects"),
      fileOf: (name) => this.#fileOf(name),
    });
    return { ...findings, clientKills: this.#clientKills, serverKills: this.#serverKills };
  }

  async #killOne(): Promise<void> {
    const draw = Math.random();
    // Mostly when it has something to lose; now and then while it starts.
    if (Math.random() < 0.8) await this.#client.movesOn();
    await sleep(Math.random() * 400);
    if (draw < 0.55) {
      this.#clientKills++;
      await this.#killClient();
    }
    if (draw > 0.45) {
      this.#serverKills++;
      this.#killsInARow++;
      await this.#server.kill();
      await this.#server.start();
    }
    if (draw < 0.55) this.#client = this.#desk.start(TURN);
    if (this.#killsInARow < SERVER_KILLS_IN_A_ROW_MAX) return;
    const endedBefore = new Set(this.#client.told);
    await this.#client.hears("ended", (told) => !endedBefore.has(told));
    this.#killsInARow = 0;
  }

  async #killClient(): Promise<void> {
    if (this.#client.isDead) throw new Error("the client ended by itself");
    await this.#client.kill();
    for (const told of this.#client.told) {
      // A turn whose beginning never reached the server is lost, and said again.
      const isBad = told.kind === "ended" && told.reason !== "completed" && told.reason !== "lost";
      if (told.kind === "bug" || isBad) throw new Error(`a client told ${JSON.stringify(told)}`);
    }
  }

  #fileOf(name: string): string | undefined {
    try {
      return readFileSync(join(this.#desk.workspace, name), "utf8");
    } catch {
      return undefined;
    }
  }
}
