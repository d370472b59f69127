/**
 * The show: one turn, and everything that is done to it while it runs.
 *
 * Nothing is timed by guess: each blow falls when the thing to be hit is seen to be under way, in the agent's words or in
 * the file that a tool writes. The two pauses are for whoever reads along.
 */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { failure } from "../../node/failures.ts";
import { type Actor, type ActorOptions, startClient, startServer } from "./actors.ts";
import type { Board } from "./board.ts";
import { linesOf } from "./evidence.ts";
import { Network } from "./network.ts";
import { beginning, DEEDS_FILE, type Deed, ending, middleOf, PLAY, promptOf } from "./play.ts";
import { tellSight } from "./sights.ts";
import { Story } from "./story.ts";

interface ShowOptions {
  readonly directory: string;
  readonly dataDir: string;
  readonly workspace: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Between two words of the agent. */
  readonly paceMs: number;
  readonly board: Board;
  /** Somebody wants to leave. */
  readonly signal: AbortSignal;
}

/** How often the tools' file is looked at. */
const POLL_MS = 20;
/** A machine that needs longer for one act has another problem. */
const ACT_MS_MAX = 40_000;
const OUTAGE_MS = 700;
const ACTS = 7;

export class Show {
  readonly story = new Story();
  readonly #options: ShowOptions;
  readonly #board: Board;
  readonly #network: Network;
  readonly #prompt: string;
  #server: Actor | undefined;
  #client: Actor | undefined;
  #failure: Error | undefined;
  #act = 0;
  /** How often each was killed or cut. */
  readonly blows = { server: 0, client: 0, network: 0 };

  private constructor(options: ShowOptions, network: Network) {
    this.#options = options;
    this.#board = options.board;
    this.#network = network;
    this.#prompt = promptOf(PLAY, options.paceMs);
  }

  static async prepare(options: ShowOptions): Promise<Show> {
    return new Show(options, await Network.open());
  }

  async play(): Promise<void> {
    await this.#startServer();
    this.#startClient();
    await this.#networkCutInText(0);
    await this.#clientKilledInTool(0);
    await this.#clientKilledInText(1);
    await this.#serverKilledInTool(1);
    await this.#serverKilledInText(2);
    await this.#networkSilentInTool(2);
    await this.#everythingFailsInText(3);
    await this.#until("the turn to end", () => this.story.over !== undefined);
    this.#board.say("client", `the turn is ${this.story.over?.reason ?? ""}`);
  }

  /** In good order, as far as they still are: for the proof nobody may hold the database. */
  async end(): Promise<void> {
    await this.#client?.dismiss();
    await this.#server?.dismiss();
    await this.#network.close();
  }

  /** At once. */
  async abandon(): Promise<void> {
    await Promise.all([this.#client?.kill(), this.#server?.kill()]);
    await this.#network.close();
  }

  async #networkCutInText(step: number): Promise<void> {
    await this.#midText(step);
    this.#announce("The network is cut in the middle of a sentence");
    this.#cutNetwork();
    await this.#pause();
    this.#mendNetwork();
  }

  async #clientKilledInTool(step: number): Promise<void> {
    const [quick, slow] = deedsOf(step);
    await this.#until(`"${slow.label}" to run and the other tools to end`, () => {
      const over = [...this.story.outcomes.values()].filter((outcome) => outcome === "done");
      return this.#hasLine(beginning(slow)) && this.#hasLine(ending(quick)) && over.length >= 3;
    });
    this.#announce(`The client is killed in the middle of the tool "${slow.label}"`);
    await this.#killClient();
    this.#startClient();
  }

  async #clientKilledInText(step: number): Promise<void> {
    await this.#midText(step);
    this.#announce("The client is killed in the middle of a sentence");
    await this.#killClient();
    this.#startClient();
  }

  async #serverKilledInTool(step: number): Promise<void> {
    const [build] = deedsOf(step);
    await this.#until(`"${build.label}" to run`, () => this.#hasLine(beginning(build)));
    this.#announce(`The server is killed while the tool "${build.label}" runs at the client`);
    await this.#killServer();
    await this.#until(`"${build.label}" to end`, () => this.#hasLine(ending(build)));
    this.#board.say("client", `"${build.label}" has ended; its result waits in the journal`);
    await this.#startServer();
  }

  async #serverKilledInText(step: number): Promise<void> {
    await this.#midText(step);
    this.#announce("The server is killed in the middle of a sentence");
    await this.#killServer();
    await this.#startServer();
  }

  async #networkSilentInTool(step: number): Promise<void> {
    const [upload] = deedsOf(step);
    await this.#until(`"${upload.label}" to run`, () => this.#hasLine(beginning(upload)));
    this.#announce(`The network goes silent while the tool "${upload.label}" runs`);
    this.#board.say("network", "silent: nothing breaks, and nothing arrives any more");
    this.blows.network++;
    this.#network.silence();
    await this.#until(`"${upload.label}" to end`, () => this.#hasLine(ending(upload)));
    this.#board.say("client", `"${upload.label}" has ended; nobody can be told`);
    await this.#until("the client to notice", () => this.story.state !== "live");
    this.#mendNetwork();
  }

  async #everythingFailsInText(step: number): Promise<void> {
    await this.#midText(step);
    this.#announce("Everything at once");
    this.#cutNetwork();
    await Promise.all([this.#killServer(), this.#killClient()]);
    await this.#pause();
    this.#mendNetwork();
    this.#startClient();
    await this.#startServer();
  }

  #announce(title: string): void {
    const { bold } = this.#board.style;
    this.#board.print();
    this.#board.print(`${++this.#act} of ${ACTS}: ${title}`, bold);
  }

  #cutNetwork(): void {
    this.#board.say("network", "cut");
    this.blows.network++;
    this.#network.cut();
  }

  #mendNetwork(): void {
    this.#network.mend();
    this.#board.say("network", "back");
  }

  async #startServer(): Promise<void> {
    const isFirst = this.#server === undefined;
    const { actor, port } = await startServer(this.#options.dataDir, this.#actorOptions);
    this.#server = actor;
    this.#network.targetPort = port;
    this.#board.say(
      "server",
      isFirst ? `process ${actor.pid}, holdfast serve` : `process ${actor.pid} starts on the same disk`,
    );
  }

  #startClient(): void {
    const { workspace } = this.#options;
    const isFirst = this.#client === undefined;
    this.#client = startClient({
      ...this.#actorOptions,
      url: `http://127.0.0.1:${this.#network.port}`,
      workspace,
      prompt: this.#prompt,
      onNews: (news) => {
        for (const sight of this.story.take(news)) tellSight(sight, this.#board);
      },
    });
    this.story.isBorn(this.#client.pid);
    this.#board.say(
      "client",
      isFirst
        ? `process ${this.#client.pid}, begins a turn`
        : `process ${this.#client.pid} starts on the same journal`,
    );
  }

  async #killServer(): Promise<void> {
    this.#board.say("KILL", `SIGKILL to server ${this.#server?.pid ?? 0}`, this.#board.style.red);
    this.blows.server++;
    await this.#server?.kill();
  }

  async #killClient(): Promise<void> {
    this.#board.say("KILL", `SIGKILL to client ${this.#client?.pid ?? 0}`, this.#board.style.red);
    this.blows.client++;
    this.story.isKilled();
    await this.#client?.kill();
  }

  get #actorOptions(): ActorOptions {
    const { directory, env } = this.#options;
    return { cwd: directory, env, onFailure: (reason) => (this.#failure ??= reason) };
  }

  #hasLine(line: string): boolean {
    return linesOf(join(this.#options.workspace, DEEDS_FILE)).includes(line);
  }

  async #midText(step: number): Promise<void> {
    const play = PLAY[step];
    const middle = play === undefined ? 0 : middleOf(play);
    await this.#until(`step ${step} to be half said`, () => {
      const { story } = this;
      return story.step === step && story.stepText.length >= middle;
    });
  }

  async #until(what: string, isSo: () => boolean): Promise<void> {
    const { signal } = this.#options;
    const deadline = this.#board.elapsedMs + ACT_MS_MAX;
    while (!isSo()) {
      if (this.#failure !== undefined) throw this.#failure;
      if (this.#board.elapsedMs > deadline) throw failure(`the show waited in vain for ${what}`);
      await sleep(POLL_MS, undefined, { signal });
    }
  }

  /** Long enough that people see it, and that the agent says something meanwhile. */
  async #pause(): Promise<void> {
    await sleep(OUTAGE_MS, undefined, { signal: this.#options.signal });
  }
}

function deedsOf(step: number): readonly [Deed, Deed] {
  const [first, second = first] = PLAY[step]?.deeds ?? [];
  if (first === undefined || second === undefined) throw failure(`step ${step} of the play has no tools`);
  return [first, second];
}
