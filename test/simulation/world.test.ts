import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { describe, test } from "node:test";
import { promisify } from "node:util";
import {
  Counters,
  EFFECT_KINDS,
  type EffectKind,
  Random,
  SimDisk,
  SimNetwork,
  SimProcess,
  World,
  WorldFailure,
  type Turns,
} from "./world/index.ts";

const run = promisify(execFile);

/** A little of everything: processes, a disk that fails, a network that fails, crashes and restarts. */
async function busyWorld(seed: number): Promise<World> {
  const world = new World(seed);
  const network = new SimNetwork(world, { codec: true });
  Object.assign(network.faults, {
    loseFrame: 0.05,
    duplicateFrame: 0.05,
    cut: 0.02,
    halfOpen: 0.3,
    ghost: 0.3,
  });
  const disk = new SimDisk(world, "disk");
  disk.faults.slow = 0.1;

  function serve(process: SimProcess): void {
    const journals = disk.openJournalStore(process);
    network.listen("server", process, (_meta, wire) => ({
      received(frame) {
        if (frame.kind !== "chunk") return;
        const ack = (): number => wire.write([{ kind: "ack", seqno: frame.seqno }]);
        journals.append("k", [frame.body]).then(ack, () => wire.end());
      },
      drained() {},
      closed() {},
    }));
    process.crashAtEffect(1 + world.random.int(40));
    process.onCrash(() => world.enqueue(100, () => serve(process.restart()), "restart"));
  }
  serve(new SimProcess(world, "server"));

  const client = new SimProcess(world, "client");
  const connect = network.connectFrom(client, () => "server");
  function dial(): void {
    const meta = { idempotencyKey: "k", streamKey: client.env.randomBytes(32), credentials: "alice" };
    const wire = connect(meta, {
      received() {},
      drained() {},
      closed: () => void client.env.after(50, dial),
    });
    for (let seqno = 0; seqno < 20; seqno++) {
      client.env.after(client.env.random() * 500, () => {
        wire.write([{ kind: "chunk", seqno, writerEpoch: 1, body: client.env.randomBytes(50) }]);
      });
    }
  }
  dial();
  await world.run({ stepsMax: 2_000 });
  return world;
}

describe("a turn of the event loop ends", () => {
  /** What happens behind a step that waits for the end of its turn and for two promises, while another step is due. */
  async function order(turns: Turns): Promise<string> {
    const world = new World(1, { turns });
    const { env } = new SimProcess(world, "server");
    const happened: string[] = [];
    world.enqueue(1, () => {
      void (async () => {
        await Promise.resolve();
        env.turnOver?.(() => happened.push("turn over"));
        await Promise.resolve();
        happened.push("promises");
      })();
    });
    world.afterStep(() => happened.push(`step ${world.steps}`));
    await world.run();
    return happened.join(", ");
  }

  test("as in production, behind its promises and within its step", async () => {
    assert.equal(await order("ticks"), "promises, turn over, step 1");
  });

  test("at a moment of its own", async () => {
    assert.equal(await order("moments"), "promises, step 1, turn over, step 2");
  });

  test("for nothing, where no turns are known", async () => {
    assert.equal(await order("at_once"), "promises, step 1");
  });

  test("as in production in most worlds, and each way in some", () => {
    const drawn = Array.from({ length: 400 }, (_, seed) => new World(seed).turns);
    const share = (turns: Turns): number => drawn.filter((one) => one === turns).length / drawn.length;
    assert.ok(share("ticks") > 0.6 && share("moments") > 0.15 && share("at_once") > 0.01);
  });
});

describe("the world is deterministic", () => {
  test("a seed replays to the identical trace, and another seed does not", async () => {
    const first = await busyWorld(7);
    const again = await busyWorld(7);
    const other = await busyWorld(8);
    assert.equal(again.traceHash, first.traceHash);
    assert.deepEqual(again.traceLines(), first.traceLines());
    assert.deepEqual(again.counters.toJSON(), first.counters.toJSON());
    assert.ok(first.steps > 500, "something went on");
    assert.notEqual(other.traceHash, first.traceHash);
  });

  test("a fork does not depend on how much was drawn before it", () => {
    const [a, b] = [new Random(1), new Random(1)];
    a.uint32();
    assert.deepEqual(a.fork("x").bytes(64), b.fork("x").bytes(64));
    assert.notDeepEqual(a.fork("x").bytes(64), b.fork("y").bytes(64));
    assert.notDeepEqual(new Random(1).fork("x").bytes(64), new Random(2).fork("x").bytes(64));
  });

  test("draws are even enough and stay within their bounds", () => {
    const random = new Random(3);
    const counts = Array.from({ length: 10 }, () => 0);
    for (let i = 0; i < 100_000; i++) {
      const value = random.int(10);
      counts[value] = (counts[value] ?? 0) + 1;
    }
    for (const count of counts) assert.ok(Math.abs(count - 10_000) < 500, counts.join(" "));
    const hits = Array.from({ length: 10_000 }, () => random.chance(0.25)).filter(Boolean).length;
    assert.ok(Math.abs(hits - 2_500) < 200);
    assert.equal(random.chance(0), false);
    assert.equal(random.chance(1), true);
  });

  test("what is due at the same time runs in an order that the seed decides", async () => {
    const orders = new Set<string>();
    for (let seed = 0; seed < 50; seed++) {
      const world = new World(seed);
      let order = "";
      for (const name of ["a", "b", "c"]) world.enqueue(10, () => (order += name));
      await world.run();
      orders.add(order);
    }
    assert.equal(orders.size, 6);
  });

  test("entries run in the order of their times, and cancelled ones never", async () => {
    const world = new World(5);
    const due: number[] = [];
    const expected: number[] = [];
    const cancels: (() => void)[] = [];
    for (let i = 0; i < 2_000; i++) {
      const delayMs = world.random.int(1_000);
      const cancel = world.schedule(delayMs, () => due.push(world.nowMs));
      if (world.random.chance(0.7)) cancels.push(cancel);
      else expected.push(delayMs);
    }
    for (const cancel of cancels) cancel();
    assert.equal(world.pending, expected.length);
    assert.equal((await world.run()).reason, "idle");
    for (const cancel of cancels) cancel();
    assert.deepEqual(
      due,
      expected.toSorted((a, b) => a - b),
    );
    assert.equal(world.pending, 0);
  });
});

describe("a step ends when its microtasks have", () => {
  test("a check sees what every continuation of the step has done", async () => {
    const world = new World(1);
    let depth = 0;
    const seen: number[] = [];
    world.afterStep(() => seen.push(depth));
    const work = async (): Promise<void> => {
      for (let i = 0; i < 20; i++) {
        await Promise.resolve();
        depth++;
      }
    };
    world.enqueue(1, () => void work());
    world.enqueue(2, () => void work());
    await world.run();
    assert.deepEqual(seen, [20, 40]);
  });

  test("a run stops at a time, after steps, on request, or when nothing is left", async () => {
    const world = new World(1);
    let ticks = 0;
    const tick = (): void => {
      ticks++;
      if (ticks < 10) world.enqueue(10, tick);
    };
    tick();
    assert.deepEqual(await world.run({ untilMs: 25 }), { reason: "until", steps: 2, nowMs: 25 });
    assert.deepEqual(await world.run({ stepsMax: 1 }), { reason: "steps", steps: 3, nowMs: 30 });
    assert.deepEqual(await world.run({ stop: () => ticks === 6 }), {
      reason: "stopped",
      steps: 5,
      nowMs: 50,
    });
    assert.deepEqual(await world.run({ untilMs: 500 }), { reason: "idle", steps: 9, nowMs: 500 });
  });

  test("a broken check fails the run and names the seed, the step and what happened before", async () => {
    const world = new World(42);
    world.enqueue(5, () => world.trace("server", "acked", 3, "of", "k"));
    world.afterStep(() => assert.fail("A3: acked before the sync"));
    await assert.rejects(world.run(), (error) => {
      assert.ok(error instanceof WorldFailure);
      assert.match(error.message, /seed 42, step 1, 5 ms: A3: acked before the sync/);
      assert.match(error.lines.join("\n"), /5 ms {2}server +acked 3 of k/);
      return true;
    });
  });

  test("a step that throws fails the run", async () => {
    const world = new World(1);
    world.enqueue(0, () => assert.fail("a bug"));
    await assert.rejects(world.run(), /seed 1, step 1, 0 ms: a bug/);
  });

  test("a promise that nobody handles fails the run in its own step", async () => {
    // In a process of its own: the test runner would take the rejection for itself.
    const script = `
      import { World } from "./test/simulation/world/index.ts";
      const world = new World(9);
      for (let i = 1; i <= 5; i++) world.enqueue(i, () => { if (i === 3) void Promise.reject(new Error("forgotten")); });
      await world.run().catch((failure) => console.log(failure.message));
    `;
    const { stdout } = await run(process.execPath, ["--input-type=module", "-e", script]);
    assert.equal(stdout.trim(), "seed 9, step 3, 3 ms: forgotten");
  });
});

test("counters of several seeds add up, and kinds that were never hit are named", () => {
  const world = new World(1);
  world.expectKinds(["net.cut", "net.ghost"]);
  world.hit("net.cut");
  const campaign = new Counters();
  campaign.merge(world.counters);
  campaign.merge({ "net.cut": 2, other: 1 });
  assert.deepEqual(campaign.toJSON(), { "net.cut": 3, "net.ghost": 0, other: 1 });
  assert.deepEqual(campaign.neverHit(), ["net.ghost"]);
});

describe("a process is a lifetime", () => {
  test("after a crash no timer fires and no effect happens", async () => {
    const world = new World(1);
    const process = new SimProcess(world, "p");
    const fired: string[] = [];
    process.env.after(5, () => fired.push("early"));
    process.env.after(15, () => fired.push("late"));
    world.enqueue(10, () => process.crash());
    world.enqueue(11, () => process.env.after(1, () => fired.push("zombie")));
    await world.run();
    assert.deepEqual(fired, ["early"]);
    assert.equal(
      process.effect("wire.write", () => assert.fail(), "dead"),
      "dead",
    );
  });

  test("a crash point before an effect prevents it, one after lets it happen, and both are synchronous", () => {
    for (const when of ["before", "after"] as const) {
      const world = new World(1);
      const process = new SimProcess(world, "p");
      const happened: EffectKind[] = [];
      process.crashAtEffect(3, when);
      for (const kind of EFFECT_KINDS.slice(0, 5)) process.effect(kind, () => happened.push(kind), 0);
      assert.deepEqual(happened, EFFECT_KINDS.slice(0, when === "before" ? 2 : 3));
      assert.equal(process.alive, false);
      assert.equal(world.counters.of(`crash.${when}.${EFFECT_KINDS[2]}`), 1);
    }
  });

  test("crash hooks run once, and the next life shares the clock but not the chance", () => {
    const world = new World(1);
    const process = new SimProcess(world, "p");
    let crashes = 0;
    process.onCrash(() => crashes++);
    process.onCrash(() => assert.fail())();
    process.jumpClock(-5_000);
    const next = process.restart();
    process.crash();
    assert.equal(crashes, 1);
    assert.equal(next.alive, true);
    assert.equal(next.incarnation, 2);
    assert.equal(next.env.now(), process.env.now());
    assert.notDeepEqual(next.env.randomBytes(16), process.env.randomBytes(16));
  });

  test("a clock drifts and jumps; timers follow the drift only", async () => {
    const world = new World(1);
    const process = new SimProcess(world, "p", { clock: { skewMs: 0, drift: 0.1 } });
    const start = process.env.now();
    let firedAtMs = 0;
    process.env.after(1_100, () => (firedAtMs = world.nowMs));
    process.jumpClock(3_600_000);
    await world.run();
    assert.equal(firedAtMs, 1_000);
    assert.equal(process.env.now() - start, 3_600_000 + 1_100);
  });

  test("a paused process gets everything when it wakes, in order, and may still cancel its timers", async () => {
    for (let seed = 0; seed < 20; seed++) {
      const world = new World(seed);
      const process = new SimProcess(world, "p");
      const seen: string[] = [];
      const note = (what: string) => () => seen.push(`${what}@${world.nowMs}`);
      let cancel = (): void => {};
      process.env.after(20, () => {
        seen.push(`a@${world.nowMs}`);
        cancel();
      });
      cancel = process.env.after(30, note("cancelled"));
      process.env.after(40, note("b"));
      process.env.after(100, note("c"));
      process.env.after(101, note("d"));
      world.enqueue(10, () => process.pause(90));
      await world.run();
      assert.deepEqual(seen, ["a@100", "b@100", "c@100", "d@101"]);
    }
  });

  test("a process that dies in a pause never wakes", async () => {
    const world = new World(1);
    const process = new SimProcess(world, "p");
    process.env.after(20, () => assert.fail());
    process.pause(100);
    world.enqueue(50, () => process.crash());
    await world.run();
    assert.equal(process.alive, false);
  });
});
