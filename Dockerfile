# docker build -t holdfast . && docker run -p 127.0.0.1:4600:4600 -v holdfast:/data -e HOLDFAST_API_KEY=... holdfast
# Keep HOLDFAST_HOME_KEY (32 bytes, base64url) with your secrets: without it the key lies in the volume, beside the data.
FROM node:24-slim AS build
WORKDIR /src
COPY . .
RUN npm ci && npm pack --pack-destination /tmp

FROM node:24-slim
COPY --from=build /tmp/holdfast-*.tgz /tmp/
RUN npm install --global --omit=dev /tmp/holdfast-*.tgz && rm /tmp/holdfast-*.tgz && install -d -o node -g node /data
USER node
ENV HOLDFAST_HOST=0.0.0.0 HOLDFAST_PORT=4600 HOLDFAST_DATA_DIR=/data/server XDG_CONFIG_HOME=/data/config
VOLUME /data
EXPOSE 4600
HEALTHCHECK CMD ["node", "-e", "fetch('http://127.0.0.1:4600/health').then(({ ok }) => process.exit(ok ? 0 : 1))"]
# As the first process it starts a killed server again, and the line lives on: `docker run --init` would put another process first.
CMD ["holdfast", "serve"]
