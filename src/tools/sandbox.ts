/**
 * Where commands run: in a bubblewrap sandbox when there is one that works, else plainly, and then a notice says so.
 *
 * In the sandbox the whole file system can be read but only the workspace written, /tmp is private, the user's home and /run are
 * empty except for what is configured or needed, our own journals are out of sight, and processes cannot outlive the command.
 *
 * Root without capabilities still owns the kernel's settings: what /proc and cgroups let their owner write is root's to write. So
 * for root /proc can only be read, and no namespace can be made in which it could be mounted anew.
 */
import { spawnSync } from "node:child_process";
import { accessSync, constants, existsSync, realpathSync } from "node:fs";
import { delimiter, join } from "node:path";
import { firstChars } from "../protocol/characters.ts";
import type { ShellConfig } from "./config.ts";
import type { Environment } from "./environment.ts";
import { fault } from "./faults.ts";

export interface Sandbox {
  /** The same command inside; `cwd` is an absolute path within the workspace. */
  wrap(argv: readonly string[], cwd: string): readonly string[];
  /** What the user should know; undefined when all is as it should be. */
  readonly notice: string | undefined;
}

interface SandboxPlace {
  /** Its real path. */
  readonly workspace: string;
  /** Directories that stay out of sight, wherever they are now. */
  readonly closed: { readonly places: readonly string[] };
}

const PROBE_MS = 5_000;
/**
 * The sockets of the system's and the user's services (docker, systemd, D-Bus): a command that reaches them has programs
 * started outside. A file system that can only be read does not keep it from connecting.
 */
const SERVICES = "/run";
const RESOLVER = "/etc/resolv.conf";

/** In a namespace of its own a command of root's would mount cgroups anew, and stop what runs outside. Since bubblewrap 0.8. */
const NO_NAMESPACES = ["--unshare-user", "--disable-userns"] as const;
const OLD_BWRAP =
  "this bubblewrap is too old to keep root's commands from making namespaces (before 0.8): update it, or do not run as root";

export function runsAsRoot(): boolean {
  return process.getuid?.() === 0;
}

export function findSandbox(config: ShellConfig, place: SandboxPlace, env: Environment): Sandbox {
  if (config.sandbox === "off")
    return plain("no sandbox: it is switched off (tools.shell.sandbox); commands run with your rights");
  const program = findProgram("bwrap", place.workspace, env);
  let problem: string | undefined = "bubblewrap (bwrap) is not installed";
  const isRoot = runsAsRoot();
  for (const hasNamespaces of isRoot ? [false, true] : [true]) {
    if (program === undefined) break;
    const within = (cwd: string) => [
      program,
      ...bwrapArguments(config, place, env, { cwd, isRoot, hasNamespaces }),
      "--",
    ];
    problem = probe(within(place.workspace));
    if (problem !== undefined) continue;
    const notice = isRoot && hasNamespaces ? OLD_BWRAP : undefined;
    return { wrap: (argv, cwd) => [...within(cwd), ...argv], notice };
  }
  if (config.sandbox === "require") {
    throw fault(
      "ENOSYS",
      `tools.shell.sandbox is "require", but ${problem}; install bubblewrap or set it to "auto"`,
    );
  }
  return plain(`no sandbox: ${problem}; commands run with your rights`);
}

function plain(notice: string): Sandbox {
  return { wrap: (argv) => argv, notice };
}

/** Installed is not enough: many systems forbid the namespaces it needs. */
function probe([program = "", ...args]: readonly string[]): string | undefined {
  const { status, stderr } = spawnSync(program, [...args, "/bin/sh", "-c", "exit 0"], {
    stdio: ["ignore", "ignore", "pipe"],
    timeout: PROBE_MS,
    encoding: "utf8",
  });
  return status === 0
    ? undefined
    : `bubblewrap does not work here (${firstChars(stderr.trim(), 200) || "no reason given"})`;
}

interface SandboxedCommand {
  readonly cwd: string;
  readonly isRoot: boolean;
  /** It may make some of its own. */
  readonly hasNamespaces: boolean;
}

export function bwrapArguments(
  config: ShellConfig,
  { workspace, closed }: SandboxPlace,
  env: Environment,
  { cwd, isRoot, hasNamespaces }: SandboxedCommand,
): readonly string[] {
  const home = env["HOME"];
  const hidesHome = home !== undefined && home.startsWith("/") && home !== "/" && existsSync(home);
  const hidden = hidesHome ? [home, SERVICES] : [SERVICES];
  const places = closed.places;
  const within = places.filter((path) => isWithin(path, workspace));
  // Before the workspace is shown, which may lie in one of them.
  const outside = places.filter((path) => !isWithin(path, workspace));
  const readable = [...config.readable, ...neededIn(hidden, env)];
  return [
    ...(hasNamespaces ? [] : NO_NAMESPACES),
    "--die-with-parent",
    "--unshare-pid",
    "--unshare-ipc",
    // Root would mount the file system anew, writable.
    "--cap-drop",
    "ALL",
    ...(config.network ? [] : ["--unshare-net"]),
    "--ro-bind",
    "/",
    "/",
    "--dev",
    "/dev",
    "--proc",
    "/proc",
    // Others own nothing there but their processes, and what sandboxes itself in turn (a browser) must write about those.
    ...(isRoot ? ["--remount-ro", "/proc"] : []),
    "--tmpfs",
    "/tmp",
    ...(existsSync(SERVICES) ? ["--tmpfs", SERVICES] : []),
    ...(hidesHome ? ["--tmpfs", home] : []),
    ...readable.flatMap((path) => ["--ro-bind-try", path, path]),
    ...config.writable.flatMap((path) => ["--bind-try", path, path]),
    ...outside.flatMap((path) => ["--tmpfs", path]),
    "--bind",
    workspace,
    workspace,
    ...within.flatMap((path) => ["--tmpfs", path]),
    "--chdir",
    cwd,
  ];
}

/** Directories of programs, and the name servers: without them a command finds less than its user does. */
function neededIn(hidden: readonly string[], env: Environment): readonly string[] {
  const needed = (env["PATH"] ?? "").split(delimiter);
  if (existsSync(RESOLVER)) needed.push(realpathSync(RESOLVER));
  return needed.filter((path) => hidden.some((directory) => isWithin(path, directory)));
}

/**
 * Never one in the workspace: `npx` puts directories of it on PATH, and what lies there was not installed by the user but
 * came with the files that the model works on.
 */
export function findProgram(name: string, workspace: string, env: Environment): string | undefined {
  const candidates = (env["PATH"] ?? "").split(delimiter).filter((path) => path.startsWith("/"));
  return candidates
    .map((path) => join(path, name))
    .find(
      (path) => isExecutable(path) && !isWithin(realpathSync(path), workspace) && !isWithin(path, workspace),
    );
}

function isWithin(path: string, directory: string): boolean {
  return path.startsWith(directory.endsWith("/") ? directory : `${directory}/`);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
