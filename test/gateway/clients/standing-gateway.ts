/**
 * `holdfast serve` behind a network of the test's own: it can be killed and started again, and connections to it can be cut.
 *
 * Its address stays. Who asks while it is away waits in the network, so no client's patience decides a test.
 */
import type { TestContext } from "node:test";
import { Cli, type Running } from "../../cli/cli-process.ts";
import { Cable } from "../cable.ts";
import {
  countedBy,
  OPEN_ANSWERS,
  PATIENCE_MS,
  prepareHome,
  type Served,
  type ServedGateway,
  serveIn,
} from "./served-gateway.ts";

export class StandingGateway implements ServedGateway {
  readonly baseURL: string;
  readonly workspace: string;
  readonly cable: Cable;
  readonly answers: ServedGateway["answers"];
  readonly metric: ServedGateway["metric"];
  readonly #start: () => Promise<Running>;
  #running: Running;

  private constructor(cable: Cable, workspace: string, start: () => Promise<Running>, running: Running) {
    this.cable = cable;
    this.workspace = workspace;
    this.baseURL = `http://127.0.0.1:${cable.port}/v1`;
    this.#start = start;
    this.#running = running;
    cable.target = Number(new URL(running.url).port);
    ({ answers: this.answers, metric: this.metric } = countedBy(() => this.#running.url));
  }

  static async begin(t: TestContext, served: Served): Promise<StandingGateway> {
    const cable = await Cable.lay(t);
    const cli = new Cli(t, { patienceMs: PATIENCE_MS });
    const workspace = prepareHome(cli, served);
    const start = () => serveIn(t, cli, served);
    return new StandingGateway(cable, workspace, start, await start());
  }

  get running(): Running {
    return this.#running;
  }

  get apiKey(): string {
    return this.#running.apiKey;
  }

  /** SIGKILL, unless it is said otherwise, and another start on the same disk. */
  async crash(signal: "SIGKILL" | "SIGTERM" = "SIGKILL"): Promise<void> {
    this.cable.hold();
    this.#running.signal(signal);
    await this.#running.exit;
    this.#running = await this.#start();
    this.cable.target = Number(new URL(this.#running.url).port);
  }

  /** Until the gateway has noticed that nobody listens. */
  async isLeft(): Promise<void> {
    while ((await this.metric(OPEN_ANSWERS)) > 0);
  }
}
