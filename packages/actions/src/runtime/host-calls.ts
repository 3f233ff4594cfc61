let running = false;

/** Marks the start of a run, when the host functions become available. */
export function startRun(): void {
  running = true;
}

/** Makes host functions throw during the build, where a call would terminate the engine without a message. */
export function guardHostFunctions<T extends object>(name: string, functions: T): T {
  return new Proxy(functions, {
    get(target, key) {
      if (running) return Reflect.get(target, key);
      throw new Error(`service:evaluator/${name} must not be called at the top level of a module; call it in evaluate`);
    },
  });
}

/**
 * Returns an argument of a host function that must be a string. Other values would trap; this throws a catchable
 * `TypeError`, which does not contain the value.
 */
export function requireString(value: unknown, functionName: string, argument: string): string {
  if (typeof value === 'string') return value;
  throw new TypeError(`${functionName}: ${argument} must be a string, not ${describeType(value)}`);
}

/** Returns an argument of a host function that must be a list of strings. Throws `TypeError`. */
export function requireStrings(value: unknown, functionName: string, argument: string): string[] {
  if (!Array.isArray(value))
    throw new TypeError(`${functionName}: ${argument} must be an array, not ${describeType(value)}`);
  return value.map((item) => requireString(item, functionName, `items of ${argument}`));
}

function describeType(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}

/** Error of the build, and of a run that returns a promise. */
export const ASYNC_EVALUATE = 'evaluate must not be async: nothing runs after it has returned';
/** Error of the build. */
export const NOT_A_FUNCTION = 'export "evaluate" must be a function';
