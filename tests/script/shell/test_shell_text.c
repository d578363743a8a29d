/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic, patterns and commands that change texts. */
#include "support/shell_means.h"

/* Values that scripts find in files and texts. */
static void searches(void **state)
{
	(void)state;
	means("cat >c.yaml <<EOF\nname: m\nsteps: 8 # x\n  lr: 1e-4\nEOF\nrun $(grep steps: c.yaml | awk "
	      "'{print $2}') "
	      "$(awk '/lr:/ {print $NF}' c.yaml) $(awk -F: '{print $1}' c.yaml | head -n 1) $(grep -m1 -E '^ "
	      "*lr' c.yaml)",
	      "<run><8><1e-4><name><lr:><1e-4>;");
	means("echo 'a b' >f; if grep -q '^a.b$' f; then run yes; fi; grep -qE '^\\s*use:\\s*true' f || run "
	      "no; "
	      "if grep -q 'a\\|b' f; then run or; fi; [[ -f f ]] && run there; [ -e g ] && run perhaps",
	      "<run><yes>;<run><no>;<run><or>;<run><there>;?<run><perhaps>;");
	means("run $(grep x gone) $(echo 1 2 | awk '{print $1+1}') $(printf 'a\\nb\\n' | awk 'NR==2')",
	      "<run><?><?><b>;");
	means("U=true; [[ -n \"$LATER\" ]] && [[ $U == false ]] && V=1; run ${V:-2}", "<run><2>;");
}

/* Elements of arrays in arithmetic. */
static void elements(void **state)
{
	(void)state;
	means("A=(1 2 4); i=1; run $((A[1] * 2)) $((A[i+1])) $((A[A[0]])) $((A[-1])) $((A[9] + 2))",
	      "<run><4><4><2><4><2>;");
	means("declare -A C=([tp]=4 [pp]=2); k=pp; run $((C[tp])) $((C[$k])) $((C[\"tp\"] - 1)) $((C[x]))",
	      "<run><4><2><3><0>;");
	means("declare -A C=([tp]=4); (( C[tp] > 1 )) && run yes", "<run><yes>;");
	means("declare -A C; for k in a b a; do (( C[$k]++ )); done; run ${C[a]} ${C[b]}", "<run><2><1>;");
	means("A=(1 2); (( A[1] = 8 )); (( A[0] += 2 )); run ${A[*]}", "<run><3><8>;");
	means("[[ x12y =~ x1([0-9])y ]]; run $((BASH_REMATCH[1] * 2))", "<run><4>;");
	/* an element that is not known, and an array of which any element may have changed */
	means("A=(1 2); run $((A[LATER])) $((NONE[0])); (( A[1] = LATER )); run ${A[0]}",
	      "<run><?><?>;<run><?>;");
	means("A=(1 2); run $((A[1)) $((A[]))", "<run><?><?>;");
}

static void any_case(void **state)
{
	(void)state;
	means("shopt -s extglob nocasematch; [[ LLaMA == llama ]] && run a; case AbC in *b*) run b;; esac; "
	      "[[ XyZ =~ ^xY ]] && run c; [ A = a ] || run d",
	      "<run><a>;<run><b>;<run><c>;<run><d>;");
	means("shopt -s nocasematch; shopt -u nocasematch; [[ A == a ]] || run no", "<run><no>;");
	means("if shopt -q nocasematch; then run 1; else run 2; fi", "?<run><1>;?<run><2>;");
}

static void nested_backticks(void **state)
{
	(void)state;
	means("run `echo \\`expr 2 + 2\\`` \"`echo \\\"b c\\\"`\"", "<run><4><b c>;");
	means("X=8; run `echo \\$X` `echo '\\$X'`", "<run><8><$X>;");
}

static void regular(void **state)
{
	(void)state;
	means("[[ 13b =~ ^([0-9]+)b$ ]] && run ${BASH_REMATCH[1]} ${#BASH_REMATCH[@]}", "<run><13><2>;");
	means("[[ v2.5.1 =~ ([0-9]+)\\.([0-9]+) ]] && run ${BASH_REMATCH[0]} ${BASH_REMATCH[2]}",
	      "<run><2.5><5>;");
	means("[[ aXb =~ a(X(b)) ]] && run ${BASH_REMATCH[@]}", "<run><aXb><Xb><b>;");
	means("if [[ Qwen3-32B =~ 32B ]]; then run big; else run small; fi", "<run><big>;");
	means("if [[ Qwen3-8B =~ (32|72)B$ ]]; then run big; else run small; fi", "<run><small>;");
	means("[[ both =~ ^(none|both)$ && 4 -gt 2 ]] && run yes", "<run><yes>;");
	means("[[ b =~ a|b ]] && run yes; [[ ! c =~ a|b ]] && run no", "<run><yes>;<run><no>;");
	means("re='^[a-z_]+\\.py$'; [[ a_b.py =~ $re ]] && run yes", "<run><yes>;");
	/* quoted characters are literal */
	means("[[ axb =~ a'.'b ]] || run no; [[ a.b =~ a\\.b ]] && run yes", "<run><no>;<run><yes>;");
	means("L=(a bb); [[ \" ${L[*]} \" =~ \" bb \" ]] && run in", "<run><in>;");
	/* an unset variable is empty */
	means("[[ $NONE =~ ^[0-9]+$ ]] || run no", "<run><no>;");
	/* if p4d does not support a pattern, or does not know a value, both branches may run */
	means("if [[ aa =~ (a)+$ ]]; then run 1; else run 2; fi", "?<run><1>;?<run><2>;");
	means("if [[ aa =~ a{2} ]]; then run 1; else run 2; fi", "?<run><1>;?<run><2>;");
	means("if [[ $LATER =~ a ]]; then run 1; else run 2; fi", "?<run><1>;?<run><2>;");
	means("[[ b =~ a|b ]]; run ${BASH_REMATCH[1]:-x}", "<run><?>;");
	means("[[ $LATER =~ (a) ]]; run ${BASH_REMATCH[1]:-x}", "<run><?>;");
	means("[[ 'a(' =~ ^a[[:digit:](|)]$ ]] && run yes; [[ a7 =~ ^a[[:digit:]x](x|)$ ]] && run yes",
	      "<run><yes>;<run><yes>;");
	/* the same words in [ ], and after another operator */
	means("[[ a == a && (b == b || c == d) ]] && run yes", "<run><yes>;");
	means("[[ x =~ [(|)] ]] || run no; [[ '|' =~ [(|)] ]] && run yes", "<run><no>;<run><yes>;");
}

/* The output of sed, grep and xargs; GNU's answers. */
static void texts(void **state)
{
	(void)state;
	means("run $(echo 'tp: 8 x' | sed 's/^\\(tp:\\) *\\([0-9]*\\).*/\\2\\1/') $(echo ab | sed -E "
	      "'s/(a)(b)/\\2 & \\1/')",
	      "<run><8tp:><b><ab><a>;");
	means("printf 'pp: 2\ntp: 8\n' >f; run $(sed -n 's/^tp: //p' f) $(sed -n '/^p/s/.*: //p' f) $(sed -n "
	      "'/tp/p' f) "
	      "$(sed '/pp/s/2/4/;/tp/d' f) $(sed 's#: ##g' f)",
	      "<run><8><2><tp:><8><pp:><4><pp2><tp8>;");
	means("echo a/b.c >f; sed -i 's/a\\/\\(b\\)/\\1/' f; run $(cat f)", "<run><b.c>;");
	means("printf 'k: 1\n' >f; sed -i.bak -E 's/^(k:).*/\\1 7/' f; run $(cat f)", "<run><k:><7>;");
	/* commands that p4d does not support */
	means(
	    "run $(echo a8 | sed 's/a/b/p') $(echo a | sed -n 's/a/b/') $(echo aa | sed -E 's/(a)+/x/') "
	    "$(echo a | sed 's/\\(a\\)/\\2/') $(echo a | sed -n -e /a/p -e /b/p) $(echo a | sed 's/a/\\n/')",
	    "<run><?><?><?><?><?>;");
	means(
	    "printf 'a\n\n# c\n  8\n' >f; run $(grep -vE '^\\s*(#|a|$)' f) $(grep -v '^ *\\(#\\|a\\|$\\)' f) "
	    "$(grep -E '8|9' f) $(grep -iE '(A|b)$' f) $(grep 'a+' f) $(grep -E '(a|b)+' f)",
	    "<run><8><8><8><a><?>;");
	means("run $(echo 'a \"b  c\" \\d' | xargs) $(echo /x/y | xargs basename) $(echo a | xargs -n1 echo)",
	      "<run><a><b><c><d><y><?>;");
	means("echo '--a \"b c\"' | xargs train -x", "<train><-x><--a><b c>;");
	means("echo '--a 1' >f; xargs -a f train; echo a | xargs -I{} train {}", "<train><--a><1>;");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(searches),         cmocka_unit_test(elements), cmocka_unit_test(any_case),
	    cmocka_unit_test(nested_backticks), cmocka_unit_test(regular),  cmocka_unit_test(texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
