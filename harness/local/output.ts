import { prettyFactory } from 'pino-pretty';

const colours = [36, 35, 32, 33, 34]; // cyan, magenta, green, yellow, blue

/** Prints lines, each after the name of its process, in a colour of its own if the terminal has colours. */
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

  /**
   * Prints a line of the JSON log in readable form, which takes several lines if it has an error. Prints any
   * other line unchanged.
   */
  log(name: string, text: string): void {
    for (const line of this.#pretty(text).trimEnd().split('\n')) this.line(name, line);
  }

  plain(text: string): void {
    console.log(text);
  }
}
