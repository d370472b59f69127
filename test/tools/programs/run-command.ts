/**
 * A client that runs one command and says when it runs; the test kills it then.
 *
 * Arguments: workspace, state directory, command. The request's bytes are left in the state directory, where a tool
 * journal would have them.
 */
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createTools, parseToolsConfig } from "../../../src/tools/index.ts";
import { request, Run } from "../rig.ts";

const [workspace = "", state = "", command = ""] = process.argv.slice(2);
const tools = await createTools({
  workspace,
  stateDirectory: state,
  config: parseToolsConfig({ shell: { sandbox: "off" } }),
  env: { PATH: "/usr/bin:/bin" },
});
const exec = request({ case: "shellArgs", value: { command } });
writeFileSync(join(state, "args"), exec.args);
const running = tools.run(exec, new Run());
while (!existsSync(join(workspace, "begun"))) await new Promise((resolve) => setTimeout(resolve, 10));
process.stdout.write("running\n");
await running;
