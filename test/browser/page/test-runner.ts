/**
 * `node:test` for a page, as far as the conformance suites need it: collects the tests, so that a test
 * in Node can run each by its number and report it as its own.
 */
interface Context {
  after(run: () => unknown): void;
}

interface Collected {
  readonly name: string;
  readonly run: () => Promise<void>;
}

export const collected: Collected[] = [];

export function describe(_name: string, register: () => void): void {
  register();
}

export function test(name: string, body: (t: Context) => void | Promise<void>): void {
  const run = async (): Promise<void> => {
    const afterwards: (() => unknown)[] = [];
    try {
      await body({ after: (run) => void afterwards.push(run) });
    } finally {
      for (const run of afterwards) await run();
    }
  };
  collected.push({ name, run });
}
