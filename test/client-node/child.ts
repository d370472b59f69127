/**
 * Real processes: programs of this folder, started, listened to, and killed.
 */
import assert from "node:assert/strict";
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { TestContext } from "node:test";

export class Child {
  readonly process: ChildProcess;
  readonly said: unknown[] = [];
  readonly #listeners = new Set<() => void>();
  #stderr = "";
  readonly exited: Promise<void>;

  /** Dies with the test at the latest. */
  constructor(t: TestContext, program: string, args: readonly string[], environment: NodeJS.ProcessEnv = {}) {
    // The test runner's mark is not for them: they are no tests.
    const env = { ...process.env, NODE_TEST_CONTEXT: undefined, ...environment };
    this.process = fork(join(import.meta.dirname, "programs", program), args, { env, silent: true });
    this.process.stderr?.setEncoding("utf8").on("data", (text: string) => (this.#stderr += text));
    this.process.on("message", (message) => {
      this.said.push(message);
      for (const listener of this.#listeners) listener();
    });
    this.exited = this.#waitForExit();
    t.after(async () => this.kill());
  }

  async #waitForExit(): Promise<void> {
    await once(this.process, "exit");
    for (const listener of this.#listeners) listener();
  }

  get stderr(): string {
    return this.#stderr;
  }

  get pid(): number {
    assert.ok(this.process.pid !== undefined, "the process began");
    return this.process.pid;
  }

  tell(message: string): void {
    this.process.send(message);
  }

  /** The first thing it said, or says, that is such. */
  async heard<Message>(isIt: (message: unknown) => message is Message): Promise<Message> {
    const { promise, resolve, reject } = Promise.withResolvers<Message>();
    const look = (): void => {
      const found = this.said.find(isIt);
      if (found !== undefined) resolve(found);
      else if (this.process.exitCode !== null) reject(new Error(`it ended without a word: ${this.#stderr}`));
    };
    this.#listeners.add(look);
    look();
    try {
      return await promise;
    } finally {
      this.#listeners.delete(look);
    }
  }

  /** A word, alone or followed by a space and more. Resolves with what follows. */
  async word(word: string): Promise<string> {
    const isIt = (message: unknown): message is string =>
      typeof message === "string" && (message === word || message.startsWith(`${word} `));
    return (await this.heard(isIt)).slice(word.length + 1);
  }

  async kill(): Promise<void> {
    this.process.kill("SIGKILL");
    await this.exited;
  }
}
