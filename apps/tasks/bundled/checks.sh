# What the tests of the bundled tasks are made of: each check looks at one thing of the final state in /app.
# finish writes 1 only if every check passed; without finish there is no reward at all.
PATH=/usr/local/bin:/usr/bin:/bin
export LC_ALL=C
cd /app || exit 1
passed=0 failed=0 report=

# check NAME COMMAND...
check() {
    local name=$1 status=failed
    shift
    if "$@" </dev/null; then status=passed passed=$((passed + 1)); else failed=$((failed + 1)); fi
    printf '%s: %s\n' "$status" "$name"
    report+="${report:+,}{\"name\":\"$name\",\"status\":\"$status\",\"duration\":0}"
}

# holds FILE TEXT: a regular file with exactly this text, with or without its last newline.
holds() {
    [ -f "$1" ] && [ ! -L "$1" ] || return 1
    printf '%s' "$2" | cmp -s - "$1" || printf '%s' "${2%$'\n'}" | cmp -s - "$1"
}

# same FILE TEXT: to the last byte.
same() {
    [ -f "$1" ] && [ ! -L "$1" ] && printf '%s' "$2" | cmp -s - "$1"
}

absent() { [ ! -e "$1" ] && [ ! -L "$1" ]; }

folder() { [ -d "$1" ] && [ ! -L "$1" ]; }

# entries TEXT: the names in the working folder, one a line.
entries() { [ "$(ls -A)" = "$1" ]; }

# returns FILE FUNCTION ARGUMENTS EXPECTED: the file is plain arithmetic, and its function gives these values.
# What the agent wrote runs with no way to call, import or reach anything, in a process of its own: a decorator is a
# call, so there is none, and no name of Python's own is there to be called.
returns() {
    [ -f "$1" ] && [ ! -L "$1" ] && [ "$(stat -c %s "$1")" -le 2000 ] || return 1
    local program='import ast, sys
tree = ast.parse(open(sys.argv[1]).read())
plain = (ast.Module, ast.FunctionDef, ast.arguments, ast.arg, ast.Return, ast.Assign, ast.Expr, ast.Constant,
         ast.Name, ast.expr_context, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
if all(isinstance(node, plain) and not getattr(node, "decorator_list", None) for node in ast.walk(tree)):
    names = {"__builtins__": {}}
    exec(compile(tree, "answer", "exec"), names)
    print([repr(names[sys.argv[2]](*arguments)) for arguments in ast.literal_eval(sys.argv[3])])'
    [ "$(timeout -s KILL 5 python3 -I -c "$program" "$1" "$2" "$3" 2>/dev/null | head -c 2000)" = "$4" ]
}

finish() {
    local total=$((passed + failed)) reward=0
    if [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]; then reward=1; fi
    printf '{"results":{"tool":{"name":"assay"},"summary":{"tests":%d,"passed":%d,"failed":%d,"pending":0,"skipped":0,"other":0,"start":0,"stop":0},"tests":[%s]}}\n' \
        "$total" "$passed" "$failed" "$report" >/logs/verifier/ctrf.json
    echo "$reward" >/logs/verifier/reward.txt
}
