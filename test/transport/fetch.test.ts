import { setDefaultCACertificates } from "node:tls";
import { fetchConnect } from "../../src/transport/fetch-transport.ts";
import { transportConformance } from "../conformance/transport.ts";
import { testCertificate } from "./certificate.ts";
import { httpRig, underTest } from "./http-rig.ts";
import { mountedIn } from "./mounted-rig.ts";
import { acknowledging, attaching } from "./split-rig.ts";

interface Variant extends NonNullable<Parameters<typeof httpRig>[2]> {
  readonly name: string;
  readonly shared: boolean;
}

// `fetch` has no option for it.
setDefaultCACertificates([testCertificate.cert]);

const variants: readonly Variant[] = [
  { name: "Attach and Append by fetch", shared: false },
  { name: "Listen and Append by fetch", shared: true },
  { name: "Attach and Append by fetch over TLS", shared: false, tls: testCertificate },
  { name: "Listen and Append by fetch over TLS", shared: true, tls: testCertificate },
  { name: "Attach and Append by fetch, mounted into node:http", shared: false, open: mountedIn("node") },
  { name: "Listen and Append by fetch, mounted into node:http", shared: true, open: mountedIn("node") },
  { name: "Attach and Append by fetch, mounted into Hono", shared: false, open: mountedIn("hono") },
  { name: "Listen and Append by fetch, mounted into Hono", shared: true, open: mountedIn("hono") },
  {
    name: "Attach and Append by fetch, mounted into a route of Next",
    shared: false,
    open: mountedIn("next"),
  },
  { name: "Listen and Append by fetch, mounted into a route of Next", shared: true, open: mountedIn("next") },
];

for (const { name, shared, ...port } of variants) {
  transportConformance(name, async (accept, t) => {
    const rig = await httpRig(acknowledging(accept), t, port);
    const transport = fetchConnect({ url: rig.url, shared });
    t.after(() => transport.close());
    return underTest(attaching(transport.connect), rig);
  });
}
