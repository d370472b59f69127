import { http2Connect } from "../../src/transport/node/http2-client.ts";
import { transportConformance } from "../conformance/transport.ts";
import { testCertificate } from "./certificate.ts";
import { httpRig, underTest } from "./http-rig.ts";

transportConformance("Stream over clear HTTP/2", async (accept, t) => {
  const rig = await httpRig(accept, t);
  const transport = http2Connect({ url: rig.url });
  t.after(() => transport.close());
  return underTest(transport.connect, rig);
});

transportConformance("Stream over TLS", async (accept, t) => {
  const rig = await httpRig(accept, t, { tls: testCertificate });
  const transport = http2Connect({ url: rig.url, ca: testCertificate.cert });
  t.after(() => transport.close());
  return underTest(transport.connect, rig);
});
