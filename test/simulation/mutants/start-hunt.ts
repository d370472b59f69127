/**
 * Starts a process with one planted bug in it, which looks for the bug until a check notices it.
 */
import { spawn } from "node:child_process";
import type { Caught } from "./record.ts";
import type { Mutant } from "./table.ts";

const PROGRAMS = {
  streams: "hunt.ts",
  agent: "hunt-agent.ts",
  gateway: "hunt-gateway.ts",
  nodes: "hunt-nodes.ts",
} as const;

/**
 * `first` is where it was noticed last time, 0 for nowhere; `tries` is how many more places are tried. Resolves with
 * undefined when nobody noticed the bug; rejects when it could not be planted.
 */
export function hunt(mutant: Mutant, first: number, tries: number): Promise<Caught | undefined> {
  const plant = new URL("plant.ts", import.meta.url).href;
  const program = PROGRAMS[mutant.hunter ?? "streams"];
  const hunter = new URL(program, import.meta.url).pathname;
  const child = spawn(process.execPath, ["--import", plant, hunter, String(first), String(tries)], {
    env: { ...process.env, HOLDFAST_PATCHES: JSON.stringify(mutant.patches) },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const output = { out: "", err: "" };
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output.out += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (output.err += text));
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => {
      if (code !== 0) return reject(new Error(reasonOf(output.err)));
      const [seed = "", by = ""] = output.out.trim().split("\t");
      return resolve(seed === "none" ? undefined : { seed: Number(seed), by });
    });
  });
}

function reasonOf(error: string): string {
  return (
    error
      .split("\n")
      .find((line) => line.startsWith("Error: "))
      ?.slice(7) ?? error
  );
}
