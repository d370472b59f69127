/**
 * The show: one turn, and everything that is done to it while it runs.
 *
 * Nothing is timed by guess: each blow falls when the thing to be hit is seen to be under way, in the agent's words or in
 * the file that a tool writes. The two pauses give the person time to read.
 */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { failure } from "../../node/failures.ts";
import { type Actor, type ActorOptions, startClient } from "./actors.ts";
import type { Board } from "./board.ts";
import { linesOf } from "./evidence.ts";
import { beginning, DEEDS_FILE, type Deed, ending, middleOf, PLAY, promptOf } from "./play.ts";
import type { Servers } from "./servers.ts";
import { tellSight } from "./sights.ts";
import { Story } from "./story.ts";

interface ShowOptions {
  readonly directory: string;
  readonly workspace: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly openServers: (options: ActorOptions) => Promise<Servers>;
  /** Between two words of the agent. */
  readonly paceMs: number;
  readonly board: Board;
  /** The person wants to leave. */
  readonly signal: AbortSignal;
}

/** How often the tools' file is looked at. */
const POLL_MS = 20;
/** A machine that needs longer for one act has another problem. */
const ACT_MS_MAX = 40_000;
const OUTAGE_MS = 700;
const ACTS = 7;

export async function prepareShow({
  directory,
  workspace,
  env,
  openServers,
  paceMs,
  board,
  signal,
}: ShowOptions) {
  const story = new Story();
  let client: Actor | undefined;
  let failed: Error | undefined;
  let act = 0;
  let restarted = Promise.resolve();
  const actorOptions: ActorOptions = { cwd: directory, env, onFailure: (reason) => (failed ??= reason) };
  const servers = await openServers(actorOptions);
  const { network, noun, disaster } = servers;
  /** How often each was killed or cut. */
  const blows = { server: 0, client: 0, network: 0 };

  async function networkCutInText(step: number): Promise<void> {
    await midText(step);
    announce("The network is cut in the middle of a sentence");
    cutNetwork();
    await pause();
    mendNetwork();
  }

  async function clientKilledInTool(step: number): Promise<void> {
    const [quick, slow] = deedsOf(step);
    await until(`"${slow.label}" to run and the other tools to end`, () => {
      const over = [...story.outcomes.values()].filter((outcome) => outcome === "done");
      return hasLine(beginning(slow)) && hasLine(ending(quick)) && over.length >= 3;
    });
    announce(`The client is killed in the middle of the tool "${slow.label}"`);
    await killClient();
    beginClient();
  }

  async function clientKilledInText(step: number): Promise<void> {
    await midText(step);
    announce("The client is killed in the middle of a sentence");
    await killClient();
    beginClient();
  }

  async function serverKilledInTool(step: number): Promise<void> {
    const [build] = deedsOf(step);
    await until(`"${build.label}" to run`, () => hasLine(beginning(build)));
    announce(`The ${noun} is killed while the tool "${build.label}" runs at the client`);
    await killServer();
    await until(`"${build.label}" to end`, () => hasLine(ending(build)));
    board.say("client", `"${build.label}" has ended; its result is in the journal`);
    await beginAgain();
  }

  async function serverKilledInText(step: number): Promise<void> {
    await midText(step);
    announce(`The ${noun} is killed in the middle of a sentence`);
    await killServer();
    await beginAgain();
  }

  async function networkSilentInTool(step: number): Promise<void> {
    const [upload] = deedsOf(step);
    await until(`"${upload.label}" to run`, () => hasLine(beginning(upload)));
    announce(`The network goes silent while the tool "${upload.label}" runs`);
    board.say("network", "silent: nothing breaks, and nothing arrives any more");
    blows.network++;
    network.silence();
    await until(`"${upload.label}" to end`, () => hasLine(ending(upload)));
    board.say("client", `"${upload.label}" has ended; no server can be reached`);
    await until("the client to notice", () => story.state !== "live");
    mendNetwork();
  }

  async function everythingFailsInText(step: number): Promise<void> {
    await midText(step);
    announce("Everything at once");
    cutNetwork();
    await Promise.all([killServer(), killClient()]);
    if (disaster !== undefined) {
      board.say("KILL", `SIGKILL to ${disaster.title}`, board.style.red);
      await disaster.strike();
    }
    await pause();
    mendNetwork();
    beginClient();
    if (disaster !== undefined) board.say("server", await disaster.mend());
    await beginServer();
  }

  function announce(title: string): void {
    const { bold } = board.style;
    board.print();
    board.print(`${++act} of ${ACTS}: ${title}`, bold);
  }

  function cutNetwork(): void {
    board.say("network", "cut");
    blows.network++;
    network.cut();
  }

  function mendNetwork(): void {
    network.mend();
    board.say("network", "back");
  }

  async function beginServer(): Promise<void> {
    for (const news of await servers.begin()) board.say("server", news);
  }

  /** Meanwhile the other nodes work, and the show continues. */
  async function beginAgain(): Promise<void> {
    restarted = beginServer();
    if (noun === "server") await restarted;
    else restarted.catch((reason: unknown) => (failed ??= failure(String(reason))));
  }

  function beginClient(): void {
    const isFirst = client === undefined;
    client = startClient({
      ...actorOptions,
      url: `http://127.0.0.1:${network.port}`,
      workspace,
      prompt: promptOf(PLAY, paceMs),
      onNews: (news) => {
        for (const sight of story.take(news)) tellSight(sight, board);
      },
    });
    story.isBorn(client.pid);
    board.say(
      "client",
      isFirst ? `process ${client.pid}, begins a turn` : `process ${client.pid} starts on the same journal`,
    );
  }

  async function killServer(): Promise<void> {
    const { title, kill } = await servers.victim(story.name);
    board.say("KILL", `SIGKILL to ${title}`, board.style.red);
    blows.server++;
    await kill();
  }

  async function killClient(): Promise<void> {
    board.say("KILL", `SIGKILL to client ${client?.pid ?? 0}`, board.style.red);
    blows.client++;
    story.isKilled();
    await client?.kill();
  }

  function hasLine(line: string): boolean {
    return linesOf(join(workspace, DEEDS_FILE)).includes(line);
  }

  async function midText(step: number): Promise<void> {
    const play = PLAY[step];
    const middle = play === undefined ? 0 : middleOf(play);
    await until(
      `step ${step} to be half said`,
      () => story.step > step || (story.step === step && story.stepText.length >= middle),
    );
  }

  async function until(what: string, isSo: () => boolean): Promise<void> {
    const deadline = board.elapsedMs() + ACT_MS_MAX;
    while (!isSo()) {
      if (failed !== undefined) throw failed;
      if (board.elapsedMs() > deadline) throw failure(`the show waited too long for ${what}`);
      await sleep(POLL_MS, undefined, { signal });
    }
  }

  /** Long enough that people see it, and that the agent says something meanwhile. */
  async function pause(): Promise<void> {
    await sleep(OUTAGE_MS, undefined, { signal });
  }

  return {
    story,
    blows,
    disk: servers.disk,
    async play(): Promise<void> {
      await beginServer();
      beginClient();
      await networkCutInText(0);
      await clientKilledInTool(0);
      await clientKilledInText(1);
      await serverKilledInTool(1);
      await serverKilledInText(2);
      await networkSilentInTool(2);
      await everythingFailsInText(3);
      await until("the turn to end", () => story.over !== undefined);
      board.say("client", `the turn is ${story.over?.reason ?? ""}`);
    },
    /** In good order, as far as they still are: for the proof no process may hold the database. */
    async end(): Promise<void> {
      await client?.dismiss();
      await restarted;
      await servers.dismiss();
    },
    /** At once. */
    async abandon(): Promise<void> {
      await restarted.catch(() => undefined);
      await Promise.all([client?.kill(), servers.abandon()]);
    },
  };
}

function deedsOf(step: number): readonly [Deed, Deed] {
  const [first, second = first] = PLAY[step]?.deeds ?? [];
  if (first === undefined || second === undefined) throw failure(`step ${step} of the play has no tools`);
  return [first, second];
}
