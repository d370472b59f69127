/**
 * `deploy/holdfast.service` under a real systemd: a restart, a kill of the server and a kill of the service's main process cost no second request.
 *
 * The test starts systemd as the first process of namespaces of its own, with these units alone. Of the unit, the test replaces the command, and the private
 * user and temporary directory, which would hide this checkout. It needs root and a writable cgroup2.
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { MODEL } from "../agent/models/providers/formats.ts";
import { FLAVOURS, scriptedProvider, varyingText } from "../agent/models/providers/scripted.ts";
import { type Act, begin, frameText } from "../agent/models/providers/server.ts";
import { repository } from "../docs/entry-points.ts";
import { bodyOf, Exchange, user } from "../gateway/openai-user.ts";
import { keptPort } from "../kept-port.ts";

const SYSTEMD = "/lib/systemd/systemd";
const NAMESPACES = [
  "--cgroup",
  "--pid",
  "--fork",
  "--kill-child",
  "--mount",
  "--uts",
  "--ipc",
  "--mount-proc",
];
const CGROUPS = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].find((at) =>
  existsSync(join(at, "cgroup.procs")),
);
const TARGETS = ["sysinit", "basic", "shutdown", "multi-user", "network-online"];
const API_KEY = "hf_of-the-systemd-test-0123456789";
const WORDS_FIRST = 3;

function missing(): string | undefined {
  if (process.platform !== "linux" || process.getuid?.() !== 0)
    return "a systemd of its own needs root on Linux";
  if (!existsSync(SYSTEMD)) return `there is no ${SYSTEMD}`;
  if (CGROUPS === undefined) return "there is no cgroup2";
  if (spawnSync("unshare", [...NAMESPACES, "true"]).status !== 0) return "no namespaces here";
  return undefined;
}

/** Like a container's: mounts of its own, and a hierarchy of cgroups that nothing else uses. */
const BEGIN = `
mount --make-rprivate /
umount --lazy /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/lib
exec ${SYSTEMD} --system --unit=multi-user.target --show-status=0`;

class Machine {
  readonly #process: ChildProcess;
  #first = 0;

  constructor(t: TestContext, units: string) {
    const cgroup = join(CGROUPS ?? "", `holdfast-test-${process.pid}`);
    mkdirSync(cgroup);
    const enter = `echo $$ > ${cgroup}/cgroup.procs && exec unshare ${NAMESPACES.join(" ")} sh -c '${BEGIN}'`;
    const env = { PATH: process.env["PATH"], container: "holdfast-test", SYSTEMD_UNIT_PATH: units };
    this.#process = spawn("sh", ["-c", enter], { stdio: "ignore", env });
    t.after(async () => {
      const isOver = new Promise((resolve) => this.#process.once("exit", resolve));
      this.#process.kill("SIGKILL");
      await isOver;
      await until(() => isGone(cgroup));
    });
  }

  async begin(): Promise<void> {
    const { pid = 0 } = this.#process;
    await until(() => (this.#first = childOf(pid) ?? 0) > 0);
    await until(() => this.run("systemctl", "is-active", "multi-user.target").trim() === "active");
  }

  run(...command: readonly string[]): string {
    const all = ["-t", String(this.#first), "-m", "-p", "-u", "-i", "-C", ...command];
    return spawnSync("nsenter", all, { encoding: "utf8" }).stdout;
  }

  /** Of the service: its number, as this machine has it. */
  get mainPid(): string {
    return this.run("systemctl", "show", "--property=MainPID", "--value", "holdfast").trim();
  }

  /** Of the processes of the service. */
  pidsOf(words: string): readonly string[] {
    return this.run("pgrep", "-f", words).trim().split("\n").filter(Boolean);
  }
}

function childOf(pid: number): number | undefined {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim();
  return children === "" ? undefined : Number.parseInt(children, 10);
}

/** Innermost first; a group with a process in it cannot go yet. */
function isGone(cgroup: string): boolean {
  const inner = spawnSync("find", [cgroup, "-depth", "-type", "d"], { encoding: "utf8" }).stdout;
  try {
    for (const one of inner.trim().split("\n").filter(Boolean)) rmdirSync(one);
    return true;
  } catch {
    return false;
  }
}

async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isSo())) await sleep(50);
}

const isReady = (url: string): Promise<boolean> =>
  fetch(`${url}/ready`).then(
    ({ ok }) => ok,
    () => false,
  );

const skip = missing();

test(
  "G6: under a real systemd a restart of the service, a kill of its server and a kill of its main process leave the line: one request in all",
  { skip: skip ?? false },
  async (t) => {
    const release = Promise.withResolvers<void>();
    let calls = 0;
    const act: Act = async (response) => {
      const frames = FLAVOURS.chat.format.frames({ text: varyingText(++calls) });
      const texts = frames.map(({ data }) => frameText(data));
      begin(response);
      response.write(texts.slice(0, WORDS_FIRST + 1).join(""));
      await release.promise;
      response.end(texts.slice(WORDS_FIRST + 1).join(""));
    };
    const provider = await scriptedProvider(t, FLAVOURS.chat, { script: () => act });
    const home = mkdtempSync(join(tmpdir(), "hf-sd-"));
    t.after(() => rmSync(home, { recursive: true, force: true }));
    const units = join(home, "units");
    mkdirSync(join(units, "holdfast.service.d"), { recursive: true });
    copyFileSync(join(repository, "deploy/holdfast.service"), join(units, "holdfast.service"));
    for (const name of TARGETS)
      writeFileSync(join(units, `${name}.target`), "[Unit]\nDefaultDependencies=no\n");
    const config = join(home, "holdfast.config.json");
    const local = { ...provider.config, apiKeyEnv: "LOCAL_KEY" };
    writeFileSync(config, JSON.stringify({ providers: { local }, models: { offered: [`local/${MODEL}`] } }));
    const port = await keptPort();
    const own = `ExecStart=\nExecStart=${process.execPath} ${join(repository, "src/cli/main.ts")} serve --port ${port} --config ${config} --drain-ms 100`;
    const variables = [
      "HOME=/var/lib/holdfast",
      "LOCAL_KEY=of-the-provider",
      `HOLDFAST_API_KEY=${API_KEY}`,
      `HOLDFAST_HOME_KEY=${Buffer.alloc(32, 7).toString("base64url")}`,
    ].map((one) => `Environment=${one}`);
    const changed = ["[Service]", own, ...variables, "DynamicUser=no", "PrivateTmp=no"];
    writeFileSync(join(units, "holdfast.service.d/test.conf"), `${changed.join("\n")}\n`);

    const machine = new Machine(t, units);
    await machine.begin();
    const url = `http://127.0.0.1:${port}`;
    const body = bodyOf([user("Which way is the wind?")], { model: `local/${MODEL}`, stream: true });
    const ask = (): Exchange =>
      new Exchange(url, body, { apiKey: API_KEY, headers: { "idempotency-key": "the-same" } });
    const cutBy = async (act: () => void): Promise<void> => {
      await until(() => isReady(url));
      const cut = ask();
      await cut.until("number");
      act();
      assert.ok(!(await cut.reply()).isWhole);
    };
    machine.run("systemctl", "start", "--no-block", "holdfast");
    await until(() => isReady(url));
    let line: readonly string[] = [];
    await cutBy(() => {
      line = machine.pidsOf("line-process");
      machine.run("systemctl", "restart", "--no-block", "holdfast");
    });
    const servers = (): readonly string[] => machine.pidsOf("cli/main.ts serve");
    await cutBy(() => {
      const main = machine.mainPid;
      machine.run("kill", "-9", ...servers().filter((pid) => pid !== main));
    });
    await cutBy(() => void machine.run("kill", "-9", machine.mainPid));
    await until(() => isReady(url));
    assert.deepEqual([line.length, machine.pidsOf("line-process")], [1, line]);
    release.resolve();
    const whole = await ask().reply();
    assert.ok(whole.isWhole);
    assert.equal(whole.text, varyingText(1));
    assert.equal(calls, 1);
    machine.run("systemctl", "stop", "--no-block", "holdfast");
    await until(() => machine.run("systemctl", "is-active", "holdfast").trim() === "inactive");
    assert.equal(
      machine.run("systemctl", "show", "--property=Result", "--value", "holdfast").trim(),
      "success",
    );
    assert.deepEqual(servers(), []);
  },
);
