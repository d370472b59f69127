/**
 * What several nodes on one store do for their clients, whatever store they share: a function that registers tests.
 */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { ClientStream } from "../../src/client/index.ts";
import { HoldfastError } from "../../src/protocol/errors.ts";
import { LetGo } from "../../src/protocol/let-go.ts";
import type { Application } from "../../src/server/index.ts";
import { bytes, ids, rest, text, until, upTo, words } from "../e2e/rig.ts";
import { NodesRig, type SharedParts, type TestNode } from "./nodes-rig.ts";

export interface SharedWorld {
  /** The same store, as one node sees it. */
  handle(): Promise<SharedParts>;
  /** As time passes for leases. */
  readonly advance: (ms: number) => void;
}

/** Says back what it hears, ends with the close, and notes what it was told. */
function echo(runs: string[], at: string): Application {
  return async (stream) => {
    runs.push(at);
    let inputs = 0;
    let said = 0;
    for await (const _ of stream.past()) said++;
    for await (const input of stream.inputs) {
      inputs++;
      if (inputs <= said) continue;
      if (input.kind === "close") return;
      await stream.emit(bytes(input.kind === "chunk" ? `${at} heard ${text(input.body)}` : input.kind));
    }
  };
}

export function nodesSuite(of: string, open: (t: TestContext) => Promise<SharedWorld>): void {
  const begun = async (t: TestContext) => {
    const world = await open(t);
    const rig = new NodesRig(t);
    const runs: string[] = [];
    const node = async (name: string, shown = name): Promise<TestNode> =>
      rig.node(name, await world.handle(), echo(runs, shown));
    return { rig, runs, world, a: await node("a"), b: await node("b"), node };
  };
  const heard = async (stream: ClientStream, count: number): Promise<readonly string[]> => {
    const got: string[] = [];
    while (got.length < count) {
      const next = await stream.events.next();
      assert.ok(next.done !== true);
      got.push(text(next.value.body));
    }
    return got;
  };

  test(`${of}: a client that returns to another node goes on there: events are tailed, chunks reach the turn, acks come back`, async (t) => {
    const { rig, runs, a, b } = await begun(t);
    let at = a;
    const stream = await rig.client(() => at).open({ first: bytes("one") });
    assert.deepEqual(await heard(stream, 1), ["a heard one"]);
    at = b;
    a.cut();
    await stream.send(bytes("two"));
    await stream.send(bytes("three"));
    await stream.close();
    const all = await rest(stream);
    assert.deepEqual(words(all), ["a heard two", "a heard three", ""]);
    await stream.ended;
    assert.deepEqual(runs, ["a"], "the turn runs where it began, once");
  });

  test(`${of}: D2: everybody attached receives every event, at whichever node`, async (t) => {
    const { rig, runs, a, b } = await begun(t);
    const stream = await rig.client(() => a).open({ first: bytes("one") });
    assert.deepEqual(await heard(stream, 1), ["a heard one"]);
    const reader = await rig.client(() => b).follow(stream.idempotencyKey);
    const reading = rest(reader);
    for (let said = 0; said < 20; said++) await stream.send(bytes(String(said)));
    await stream.close();
    const [here, there] = await Promise.all([rest(stream), reading]);
    assert.deepEqual(ids(there), upTo(22));
    assert.deepEqual(words(there).slice(1), words(here));
    assert.deepEqual(runs, ["a"]);
  });

  test(`${of}: D3: an abort may be asked for at any node`, async (t) => {
    const { rig, a, b } = await begun(t);
    const stream = await rig.client(() => a).open({ first: bytes("one") });
    assert.deepEqual(await heard(stream, 1), ["a heard one"]);
    const stopper = await rig.client(() => b).abort(stream.idempotencyKey);
    await stopper.ended;
    assert.equal((await rest(stream)).at(-1)?.end, "aborted");
  });

  test(`${of}: D1, D2: a takeover at another node fences the client before, and numbering goes on`, async (t) => {
    const { rig, runs, a, b } = await begun(t);
    const stream = await rig.client(() => a).open({ first: bytes("one") });
    assert.deepEqual(await heard(stream, 1), ["a heard one"]);
    const second = await rig.client(() => b).takeOver(stream.idempotencyKey);
    const reading = rest(second);
    await second.send(bytes("two"));
    await second.close();
    assert.deepEqual(words(await reading), ["a heard one", "takeover", "a heard two", ""]);
    assert.equal(await stream.ended, "fenced");
    assert.deepEqual(runs, ["a"]);
  });

  test(`${of}: D1: two clients without a journal are one writer after the other, at whichever node`, async (t) => {
    const { rig, a, b } = await begun(t);
    const first = await rig.client(() => a, { journals: "none" }).open({ first: bytes("one") });
    assert.deepEqual(await heard(first, 1), ["a heard one"]);
    const second = await rig.client(() => b, { journals: "none" }).resume(first.idempotencyKey);
    const reading = rest(second);
    await second.send(bytes("two"));
    assert.equal(await first.ended, "fenced");
    await second.close();
    assert.deepEqual(words(await reading), ["a heard one", "a heard two", ""]);
  });

  test(`${of}: the node that runs a turn dies: the next attach makes another node its host, once the lease is over`, async (t) => {
    const { rig, runs, world, a, b } = await begun(t);
    let at = a;
    const stream = await rig.client(() => at).open({ first: bytes("one") });
    assert.deepEqual(await heard(stream, 1), ["a heard one"]);
    at = b;
    a.kill();
    const said = stream.send(bytes("two"));
    // The lease runs: the client is attached to b, and waits there.
    await until(() => stream.status.state === "live", "b follows the stream");
    assert.deepEqual(runs, ["a"]);
    world.advance(16_000);
    await said;
    await stream.close();
    assert.deepEqual(words(await rest(stream)), ["b heard two", ""]);
    assert.deepEqual(runs, ["a", "b"]);
  });

  test(`${of}: D1: a node that slept past its lease writes nothing when it wakes, and its turn stops for good`, async (t) => {
    const { rig, runs, world, b } = await begun(t);
    const woken = Promise.withResolvers<void>();
    const stopped = Promise.withResolvers<readonly [string, boolean]>();
    const sleeper = rig.node("sleeper", await world.handle(), async (stream) => {
      await stream.emit(bytes("sleeper heard one"));
      await woken.promise;
      const said = await stream.emit(bytes("late")).then(
        () => "written",
        (cause: unknown) => HoldfastError.codeOf(cause) ?? "",
      );
      stopped.resolve([said, stream.signal.reason instanceof LetGo]);
    });
    let at = sleeper;
    const stream = await rig.client(() => at).open({ first: bytes("one") });
    assert.deepEqual(await heard(stream, 1), ["sleeper heard one"]);
    const wake = await sleeper.sleep();
    world.advance(16_000);
    at = b;
    sleeper.cut();
    await stream.send(bytes("two"));
    assert.deepEqual(await heard(stream, 1), ["b heard two"]);
    wake();
    woken.resolve();
    // No other run can have what this one holds: it is not kept for one.
    assert.deepEqual(await stopped.promise, ["unavailable", false]);
    await stream.close();
    assert.deepEqual(words(await rest(stream)), [""]);
    assert.deepEqual(runs, ["b"]);
  });

  test(`${of}: a node that shuts down in order gives its streams back, and nobody waits for a lease`, async (t) => {
    const { rig, runs, a, b } = await begun(t);
    let at = a;
    const stream = await rig.client(() => at).open({ first: bytes("one") });
    assert.deepEqual(await heard(stream, 1), ["a heard one"]);
    const reader = await rig.client(() => b).follow(stream.idempotencyKey);
    const reading = rest(reader);
    at = b;
    await a.server.shutdown();
    await stream.send(bytes("two"));
    await stream.close();
    await rest(stream);
    assert.deepEqual(words(await reading), ["a heard one", "b heard two", ""]);
    assert.deepEqual(runs, ["a", "b"]);
  });

  test(`${of}: a node that lost its memory gives a stream back when another one knocks`, async (t) => {
    const { rig, runs, a, b, node } = await begun(t);
    let at = a;
    const stream = await rig.client(() => at).open({ first: bytes("one") });
    assert.deepEqual(await heard(stream, 1), ["a heard one"]);
    at = b;
    a.kill();
    // The same node, started again: the lease is its own, and it knows nothing of the stream.
    await node("a", "a again");
    await stream.send(bytes("two"));
    await stream.close();
    assert.deepEqual(words(await rest(stream)), ["b heard two", ""]);
    assert.deepEqual(runs, ["a", "b"]);
  });

  test(`${of}: G7: a node that holds a stream and does not run it lets a node have it whose client wants it to run`, async (t) => {
    const { rig, runs, world, a, b, node } = await begun(t);
    const stream = await rig.client(() => a).open({ first: bytes("one") });
    assert.deepEqual(await heard(stream, 1), ["a heard one"]);
    a.kill();
    world.advance(16_000);
    const peeking = await rig.client(() => b).follow(stream.idempotencyKey, 0, { peek: true });
    assert.deepEqual(await heard(peeking, 1), ["a heard one"]);
    assert.deepEqual(runs, ["a"]);
    const c = await node("c");
    const reader = await rig.client(() => c).follow(stream.idempotencyKey);
    await until(() => runs.length > 1, "the turn runs");
    assert.deepEqual(runs, ["a", "c"]);
    reader.leave();
  });
}
