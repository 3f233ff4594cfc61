import { LOG_LEVELS, LOG_TARGETS, type LogFilter, type LogTarget, type LogThreshold } from './log-targets.ts';
import { InvalidSettingError, quote, type Setting } from './setting.ts';

/** What RUST_LOG asks for, and warnings for directives that have no effect here. */
interface LogDirectives {
  readonly filter: LogFilter;
  readonly warnings: readonly string[];
}

const DEFAULT_LEVEL: LogThreshold = 'info';

/** The filter of an unset RUST_LOG: `info` for every target. */
export const DEFAULT_LOG_FILTER: LogFilter = resolve([], DEFAULT_LEVEL);

interface Directive {
  readonly target: string;
  readonly level: LogThreshold;
}

/**
 * Directives of RUST_LOG (decisions 1.2): `level`, `target=level`, `target` (= everything of it), separated by commas,
 * blanks around them allowed. A target speaks for every target that begins with it; the longest one wins, and of equal
 * ones the last. Targets that no directive speaks for follow the bare level, else `info`: naming one target does not
 * silence the errors of the others.
 */
export const logDirectives: Setting<LogDirectives> = {
  accepts: 'a comma list of level, target=level or target, with levels off, error, warn, info, debug, trace',
  parse: (text) => {
    const directives: Directive[] = [];
    const warnings: string[] = [];
    let fallback: LogThreshold = DEFAULT_LEVEL;
    for (const item of splitDirectives(text)) {
      if (item.includes('[')) {
        warnings.push(`span filter ${quote(item)} is ignored: this log has no spans`);
        continue;
      }
      const level = parseLevel(item);
      if (level !== undefined) {
        fallback = level;
        continue;
      }
      const directive = parseDirective(item);
      if (!item.includes('=') && !LOG_TARGETS.some((target) => target.startsWith(directive.target))) {
        warnings.push(`${quote(item)} is neither a level nor the beginning of a target and has no effect`);
      }
      directives.push(directive);
    }
    return { filter: resolve(directives, fallback), warnings };
  },
};

function parseDirective(item: string): Directive {
  const [target = '', levelText, ...rest] = item.split('=').map((part) => part.trim());
  if (!/^[A-Za-z_][\w:.-]*$/.test(target)) throw new InvalidSettingError(`has no valid target in ${quote(item)}`);
  const level = levelText === undefined ? 'trace' : parseLevel(levelText);
  if (level === undefined || rest.length > 0) throw new InvalidSettingError(`has no valid level in ${quote(item)}`);
  return { target, level };
}

function parseLevel(text: string): LogThreshold | undefined {
  const word = text.toLowerCase();
  return word === 'off' ? word : LOG_LEVELS.find((level) => level === word);
}

/** Splits at the commas outside brackets: a span filter lists its fields with commas of its own. */
function splitDirectives(text: string): string[] {
  const items: string[] = [];
  let depth = 0;
  let start = 0;
  for (let at = 0; at <= text.length; at++) {
    const char = text[at];
    if (char === '[' || char === '{') depth++;
    else if (char === ']' || char === '}') depth--;
    if (depth < 0) throw new InvalidSettingError('closes a bracket that is not open');
    if (char === undefined || (char === ',' && depth === 0)) {
      items.push(text.slice(start, at).trim());
      start = at + 1;
    }
  }
  if (depth > 0) throw new InvalidSettingError('has a bracket that is not closed');
  return items.filter((item) => item !== '');
}

function resolve(directives: readonly Directive[], fallback: LogThreshold): LogFilter {
  const levelOf = (target: LogTarget): LogThreshold => {
    let best: Directive | undefined;
    for (const directive of directives) {
      if (!target.startsWith(directive.target)) continue;
      if (best === undefined || directive.target.length >= best.target.length) best = directive;
    }
    return best?.level ?? fallback;
  };
  return {
    service: levelOf('service'),
    'service::mcp': levelOf('service::mcp'),
    'service::mcp::access': levelOf('service::mcp::access'),
    'service::mgmt': levelOf('service::mgmt'),
    'service::mgmt::access': levelOf('service::mgmt::access'),
    'service::inference': levelOf('service::inference'),
    'service::inference::access': levelOf('service::inference::access'),
    'service::evaluator': levelOf('service::evaluator'),
    'service::bridge': levelOf('service::bridge'),
    'service::registry': levelOf('service::registry'),
    'service::forward': levelOf('service::forward'),
  };
}
