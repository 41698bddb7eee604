import { prettyFactory } from 'pino-pretty';

const colours = [36, 35, 32, 33, 34]; // cyan, magenta, green, yellow, blue

/** Prints lines behind the name of the process that they come from, each name in its colour if the terminal shows colours. */
export class Output {
  readonly #names: string[];
  readonly #width: number;
  readonly #coloured: boolean;
  readonly #pretty: (line: string) => string;

  constructor(names: string[], coloured = process.stdout.isTTY === true && !process.env.NO_COLOR) {
    this.#names = names;
    this.#width = Math.max(...names.map((name) => name.length));
    this.#coloured = coloured;
    this.#pretty = prettyFactory({
      colorize: coloured,
      ignore: 'pid,process',
      singleLine: true,
      translateTime: 'SYS:HH:MM:ss',
    });
  }

  line(name: string, text: string): void {
    const prefix = `${name.padEnd(this.#width)} |`;
    const colour = colours[this.#names.indexOf(name) % colours.length];
    console.log(`${this.#coloured ? `\x1b[${colour}m${prefix}\x1b[0m` : prefix} ${text}`);
  }

  /** A line of the JSON log as people read it; with an error, several lines. Any other line as it is. */
  log(name: string, text: string): void {
    for (const line of this.#pretty(text).trimEnd().split('\n')) this.line(name, line);
  }

  plain(text: string): void {
    console.log(text);
  }
}
