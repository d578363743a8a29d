# SPDX-License-Identifier: Apache-2.0
# The calculator: `make web` compiles p4d estimate and p4d plan for the browser, with Debian's emscripten, into one page:
# web/calculator/index.html of the build directory.
EMCC = emcc
web_json = web/json-c/value.c web/json-c/print.c web/json-c/parse.c
web_command = command/command_estimate.c command/command_plan.c command/command_list.c \
	command/line/line.c command/line/synonyms.c command/line/subject.c \
	command/report/report.c command/report/report_json.c command/report/report_step.c command/report/places.c \
	command/report/plan_groups.c command/report/advice.c command/report/unfit.c command/report/colocated.c \
	command/report/serving.c command/report/serving_plan.c command/report/serving_places.c \
	command/picture/pictures.c command/picture/svg.c command/picture/svg_axis.c command/picture/svg_memory.c
web_library = $(filter %.c,$(libp4doptions_la_SOURCES) $(libp4dbase_la_SOURCES) $(libp4djson_la_SOURCES) $(libp4dcore_la_SOURCES)) script/reader/read_values.c
web_objects = $(patsubst %.c,web/objects/%.o,web/web.c $(web_json) $(web_command) $(web_library) $(nodist_libp4dcore_la_SOURCES))
EXTRA_DIST += web/web.c web/machine.h web/index.html web/json-c/json.h web/json-c/value.h $(web_json)

# json-c and libsmartcols stay out: web/json-c/ has the part of json-c that p4d uses, and a page needs no tables.
web_compile = $(MKDIR_P) $(@D) && $(EMCC) -O2 -std=gnu11 -MMD -include $(srcdir)/web/machine.h -I$(srcdir)/web $(AM_CPPFLAGS) -c $< -o $@
web/objects/estimator/site/tables.o: estimator/site/tables.c
	$(AM_V_CC)$(web_compile)
web/objects/%.o: $(srcdir)/%.c
	$(AM_V_CC)$(web_compile)
web/p4d.js: $(web_objects)
	$(AM_V_GEN)NODE_PATH=/usr/share/nodejs $(EMCC) -O2 $(web_objects) -o $@ --no-entry -sSINGLE_FILE=1 -sMODULARIZE=1 -sEXPORT_NAME=createP4d \
		-sEXPORTED_FUNCTIONS=_p4d_web_answer -sEXPORTED_RUNTIME_METHODS=ccall,FS -sFORCE_FILESYSTEM=1 \
		-sALLOW_MEMORY_GROWTH=1 -sENVIRONMENT=web,worker,node
web/calculator/index.html: web/p4d.js $(srcdir)/web/index.html
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN)sed -e '/^@ENGINE@$$/{r web/p4d.js' -e 'd}' $(srcdir)/web/index.html >$@.tmp && mv $@.tmp $@
-include $(web_objects:.o=.d)

web:
	@if $(EMCC) --version >/dev/null 2>&1; then $(MAKE) web/calculator/index.html && ls -lh web/calculator/index.html; \
	else echo "The calculator is left out: $(EMCC) is missing (Debian: apt-get install emscripten)"; fi
# For tests/command/test_web.sh: the host's compiler with the page's headers, and the sources apart from web/.
web-sources:
	@echo $(CC) -std=gnu11 -include $(srcdir)/web/machine.h -I$(srcdir)/web $(AM_CPPFLAGS)
	@printf '%s\n' $(web_command) $(web_library) $(nodist_libp4dcore_la_SOURCES)
clean-web:
	rm -rf web/objects web/calculator web/p4d.js
.PHONY: web web-sources clean-web
clean-local: clean-web
