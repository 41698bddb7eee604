# A tag can be moved, so a release is built with a digest: --build-arg BASE=node:24-slim@sha256:… (docs/operating.md).
ARG BASE=node:24-slim
FROM ${BASE}

ENV NODE_ENV=production
WORKDIR /app

COPY package.json package-lock.json ./
RUN npm ci --omit=dev --ignore-scripts && npm cache clean --force

COPY lua lua
COPY src src

USER node
EXPOSE 3000

HEALTHCHECK --interval=10s --timeout=3s --start-period=15s CMD ["node", "-e", \
  "fetch(`http://127.0.0.1:${process.env.PORT || 3000}/health`).then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]

# The worker runs from the same image with `node --max-semi-space-size=16 --initial-old-space-size=96 src/worker.ts`.
CMD ["node", "--max-semi-space-size=32", "--no-allocation-site-pretenuring", "src/web.ts"]
