/**
 * Node's http. An `import` of `node:http` reads all that the module exports, and so loads Node's `fetch`, which the bus
 * does not use, and which takes a tenth of the CPU of a web process's start.
 */
export const http = process.getBuiltinModule('node:http');
