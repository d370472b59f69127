/** The sandbox as root sees it from inside: without capabilities, and still the owner of what the kernel shows as files. */
import assert from "node:assert/strict";
import { tmpdir } from "node:os";
import { test, type TestContext } from "node:test";
import { TOOLS_DEFAULTS } from "../../src/tools/config.ts";
import { bwrapArguments, findProgram } from "../../src/tools/sandbox.ts";
import { outcome, type Rig, rig, temporaryDirectory } from "./rig.ts";

/** Undefined when it cannot be tried here, which is said. */
async function sandboxOfRoot(t: TestContext): Promise<Rig | undefined> {
  const hasProgram = findProgram("bwrap", tmpdir(), process.env) !== undefined;
  if (!hasProgram || process.getuid?.() !== 0) {
    t.diagnostic("needs bubblewrap, and root: root's sandbox was not tried");
    return undefined;
  }
  const env = { PATH: process.env["PATH"], HOME: temporaryDirectory(t, "home") };
  return rig(t, { env, config: { shell: { sandbox: "require" } } });
}

async function output({ perform }: Rig, command: string): Promise<string> {
  const { stdout } = outcome(await perform({ case: "shellArgs", value: { command } }), "success");
  assert(typeof stdout === "object" && stdout !== null && "content" in stdout);
  const { content } = stdout;
  assert(typeof content === "object" && content !== null && "value" in content);
  assert(content.value instanceof Uint8Array);
  return Buffer.from(content.value).toString();
}

test("for root /proc is mounted to be read, after it is mounted at all; for others it stays as it is", () => {
  const place = { workspace: "/project", closed: { places: [] } };
  const argumentsFor = (isRoot: boolean) =>
    bwrapArguments(TOOLS_DEFAULTS.shell, place, {}, { cwd: "/project", isRoot, hasNamespaces: !isRoot }).join(
      " ",
    );
  assert.match(argumentsFor(true), /^--unshare-user --disable-userns .*--proc \/proc --remount-ro \/proc /u);
  assert.doesNotMatch(argumentsFor(false), /remount|userns/u);
});

test("E4: closed directories are covered: one that has the workspace in it before the workspace is shown, others after", () => {
  const place = { workspace: "/data/project", closed: { places: ["/data", "/data/project/keys"] } };
  const command = { cwd: "/data/project", isRoot: false, hasNamespaces: true };
  assert.match(
    bwrapArguments(TOOLS_DEFAULTS.shell, place, {}, command).join(" "),
    /--tmpfs \/data --bind \/data\/project \/data\/project --tmpfs \/data\/project\/keys /u,
  );
});

test("in the sandbox root can open no setting of the kernel for writing", async (t) => {
  const place = await sandboxOfRoot(t);
  if (place === undefined) return;
  // Opened and closed again: nothing is written, whatever the kernel says.
  const opened = await output(
    place,
    "for file in $(find /proc/sys /proc/irq /proc/fs /proc/acpi /proc/bus -type f) /proc/*; do [ -f $file ] && (exec 3<>$file) && echo $file; done 2> /dev/null; true",
  );
  assert.equal(opened, "");
});

test("in the sandbox root finds nothing mounted writable but what commands are given", async (t) => {
  const place = await sandboxOfRoot(t);
  if (place === undefined) return;
  // Fields of mountinfo: the mount point is the fifth, its options are the sixth.
  const writable = await output(place, "awk '$6 ~ /^rw/ { print $5 }' /proc/self/mountinfo");
  const given = new Set(["/tmp", "/run", place.workspace]);
  const foreign = writable
    .trim()
    .split("\n")
    .filter((path) => !given.has(path) && path !== "/dev" && !path.startsWith("/dev/"));
  assert.deepEqual(foreign, [await output(place, "printf %s $HOME")]);
});

test("in the sandbox root makes no namespace in which it could mount anew", async (t) => {
  const place = await sandboxOfRoot(t);
  if (place === undefined) return;
  assert.doesNotMatch(place.tools.notices.join(), /too old/u, "bubblewrap before 0.8 cannot do it");
  assert.equal(await output(place, "unshare --user /bin/sh -c 'echo made'; true"), "");
});

test("a client that runs as root says so", async (t) => {
  const { tools } = await rig(t);
  assert.equal(/runs as root/u.test(tools.notices.join("\n")), process.getuid?.() === 0);
});
