import { setDefaultCACertificates } from "node:tls";
import { fetchConnect } from "../../src/transport/fetch-transport.ts";
import { transportConformance } from "../conformance/transport.ts";
import { testCertificate } from "./certificate.ts";
import { httpRig, underTest } from "./http-rig.ts";
import { acknowledging, attaching } from "./split-rig.ts";

// `fetch` has no option for it.
setDefaultCACertificates([testCertificate.cert]);

const variants = [
  { name: "Attach and Append by fetch", shared: false },
  { name: "Listen and Append by fetch", shared: true },
  { name: "Attach and Append by fetch over TLS", shared: false, tls: testCertificate },
  { name: "Listen and Append by fetch over TLS", shared: true, tls: testCertificate },
];

for (const { name, shared, ...port } of variants) {
  transportConformance(name, async (accept, t) => {
    const rig = await httpRig(acknowledging(accept), t, port);
    const transport = fetchConnect({ url: rig.url, shared });
    t.after(() => transport.close());
    return underTest(attaching(transport.connect), rig);
  });
}
